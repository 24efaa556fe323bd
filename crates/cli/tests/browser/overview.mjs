// The overview: counts that are links, the verdict, charts, and a small first load.

import { gzipSync } from "node:zlib";

const BYTES_MAX = 150 * 1000;

export default async function ({ page, url, options, assert }) {
  await page.goto(url);
  await page.waitForText("Webhooks are not all getting through");
  await page.waitForText("1 dead letter waits for a decision");
  await page.waitFor("one dead letter in its tile", () => document.querySelector(".tile[href='#/dead-letters'] .value").textContent === "1");
  const links = await page.evaluate(() => [...document.querySelectorAll(".tile")].map((tile) => tile.getAttribute("href")));
  assert(links.length === 8 && links.every((link) => link.startsWith("#/")), `tiles without a link: ${links}`);
  await page.waitFor("live updates", () => document.querySelector("#connection").dataset.state === "live");
  await page.waitFor("the failing destination", () => document.querySelector(".plain-list .row")?.innerText.includes("127.0.0.1:1"));
  await page.waitFor("the number in the title", () => document.title.startsWith("(1) "));

  // The worker reports every ten seconds, and the charts show what it did.
  await page.click(".segments button:nth-child(1)");
  await page.waitFor("dead letters in the history", () => [...document.querySelectorAll(".chart")].some((chart) => chart.querySelector("h2").textContent === "Dead letters" && chart.querySelector(".empty").hidden && chart.querySelector("canvas") && chart.querySelector(".legend b").textContent === "1"));
  await page.waitFor("the failed attempt in the history", () => document.querySelector(".chart .empty").hidden);

  const files = await page.evaluate(() => [location.origin + location.pathname,
    ...performance.getEntriesByType("resource").map((entry) => entry.name).filter((name) => name.includes("/assets/"))]);
  assert(files.length > 20, `the page loaded only ${files}`);
  let bytes = 0;
  for (const file of new Set(files)) bytes += gzipSync(Buffer.from(await (await fetch(file)).arrayBuffer())).length;
  assert(bytes < BYTES_MAX, `the first load is ${bytes} bytes after compression`);

  for (const colors of ["light", "dark"]) {
    await page.setColors(colors);
    for (const width of [1400, 390]) {
      await page.resize(width, 900);
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert(overflow <= 0, `at ${width} px the page is ${overflow} px too wide`);
      await page.screenshot(`overview-${width}-${colors}`);
    }
  }
  await page.evaluate(() => document.querySelector("#theme").click());
  assert(await page.evaluate(() => document.documentElement.dataset.theme === "light"), "the switch of colours does nothing");
  assert(options.screenshots, "no directory for screenshots");
}
