// The picture of the README: the overview with some minutes of history. docs/page/screenshot.mjs runs it.

export default async function ({ page, url }) {
  await page.resize(1400, 1000);
  await page.setColors("light");
  await page.goto(`${url}#/?range=15m`);
  await page.waitFor("live updates", () => document.querySelector("#connection").dataset.state === "live");
  await page.waitFor("a chart with data", () => document.querySelectorAll(".chart .empty[hidden]").length >= 4);
  await page.waitForText("worker-1");
  await page.waitFor("half a minute of the live rate", () => {
    globalThis.firstSeenMs ??= performance.now();
    return performance.now() - globalThis.firstSeenMs > 30_000 && /[1-9]/.test(document.querySelector(".tile.rate .now").textContent);
  });
  await page.screenshot("overview");
}
