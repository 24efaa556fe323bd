// What is drawn in the charts of the overview.

/** Returns the number of pixels of a chart in about the colour of a series, and the part of its width that is left of all of them. */
export function findColor(page, chart, color) {
  return page.evaluate((index, name) => {
    const canvas = document.querySelectorAll(".chart")[index].querySelector("canvas");
    const wanted = getComputedStyle(document.querySelector(`.c-${name}`)).color.match(/\d+/g).map(Number);
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    let [count, left] = [0, canvas.width];
    for (let at = 0; at < data.length; at += 4) {
      if (data[at + 3] <= 200 || wanted.some((value, part) => Math.abs(value - data[at + part]) >= 24)) continue;
      count += 1;
      left = Math.min(left, (at / 4) % canvas.width);
    }
    return { count, left: left / canvas.width };
  }, chart, color);
}
