// Nothing on the page jumps while a view loads and is refreshed.

// The sum of the shifts of one view. Web Vitals call 0.1 good.
const SHIFT_MAX = 0.1;
const VIEWS = ["#/", "#/events", "#/dead-letters", "#/destinations", "#/endpoints", "#/bulk", "#/live", "#/send", "#/events/order-17-created"];

export default async function ({ page, url, assert }) {
  await page.call("Page.addScriptToEvaluateOnNewDocument", { source: `
    globalThis.shifts = [];
    new PerformanceObserver((list) => globalThis.shifts.push(...list.getEntries().filter((entry) => !entry.hadRecentInput).map((entry) => ({
      value: entry.value, nodes: entry.sources.map(({ node }) => node?.className ?? node?.nodeName).join(", "),
    })))).observe({ type: "layout-shift", buffered: true });
    globalThis.polls = () => performance.getEntriesByType("resource").filter(({ name }) => name.endsWith("/overview")).length;` });
  for (const [width, height] of [[1400, 900], [390, 844]]) {
    await page.resize(width, height);
    for (const view of VIEWS) {
      await page.goto(`${url}?${width}-${encodeURIComponent(view)}${view}`);
      await page.waitFor(`the view ${view} without "Loading"`, () => !document.querySelector("#view").innerText.includes("Loading"));
      await page.waitFor("another poll", () => globalThis.polls() >= 2);
      const shifts = await page.evaluate(() => globalThis.shifts);
      const sum = shifts.reduce((total, { value }) => total + value, 0);
      assert(sum < SHIFT_MAX, `${view} at ${width} px jumps by ${sum.toFixed(3)}: ${JSON.stringify(shifts)}`);
    }
  }
}
