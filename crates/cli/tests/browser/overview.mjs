// The overview: counts that are links, the verdict, charts in several ranges, the worker, and a small first load.

import { gzipSync } from "node:zlib";
import { findColor } from "./chart-colors.mjs";
import { startReceiver } from "./portal-setup.mjs";

const BYTES_MAX = 150 * 1000;
/** Ranges, and between which parts of the width of a chart their data begins: an hour with some seconds of data, days with ten of them. */
const RANGES = { "1h": [0.8, 1], "7d": [0, 0.3], "30d": [0.5, 0.8] };

export default async function ({ page, url, options, assert, until }) {
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
  await page.resize(1400, 900);

  // The worker is that of the server: its version, the age of its heartbeat, and the request that it has in flight.
  const receiver = await startReceiver();
  let answer;
  receiver.state.gate = new Promise((resolve) => { answer = resolve; });
  const event = { event_type: "order.created", destination_url: receiver.url, payload: {}, max_attempts: 9 };
  await fetch(new URL("v1/webhook-outbox/events", url), { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(event) });
  const worker = (text) => page.waitFor(`the worker, with ${text}`, (wanted) => {
    const rows = [...document.querySelectorAll("[aria-label=Workers] li")].map((row) => row.innerText.replace(/\s+/g, " "));
    return rows.length === 1 && /heartbeat \d+ s ago/.test(rows[0]) && rows[0].includes(wanted);
  }, text);
  await worker(`1 in flight, version ${options.version}, started`);
  answer();
  await worker("0 in flight");
  receiver.close();

  // Each range is drawn with the data that it has, and no other.
  for (const range of options.ranges) {
    const number = await page.evaluate((wanted) => [...document.querySelectorAll(".segments button")].findIndex(({ textContent }) => textContent === wanted) + 1, range);
    await page.click(`.segments button:nth-child(${number})`);
    await page.waitFor(`the range ${range}`, (wanted) => document.querySelector(".segments [aria-pressed=true]").textContent === wanted && document.querySelector(".charts[aria-busy=false]") !== null && document.querySelectorAll(".chart .empty[hidden]").length === 4, range);
    const [from, to] = RANGES[range];
    await until(async () => `dead letters in ${range}, which are drawn as ${JSON.stringify(await findColor(page, 3, "failed"))}`, async () => {
      const { count, left } = await findColor(page, 3, "failed");
      return count > 0 && left >= from && left < to;
    });
  }

  // Each tile leads to its list, and none of these fails.
  for (const [index, link] of links.entries()) {
    await page.show("#/");
    await page.waitFor("the counts", () => document.querySelector(".tiles").getAttribute("aria-busy") === "false" && document.querySelector(".opening") === null);
    await page.click(`.tile:nth-child(${index + 1})`);
    await page.waitFor(`the list at ${link}`, (wanted) => location.hash === wanted && document.querySelector("#view :is(.list, .window)") !== null && !document.querySelector("#view").innerText.includes("Loading"), link);
    await page.settle();
    const error = await page.evaluate(() => [...document.querySelectorAll("#view .error, #problem")].find((element) => element.checkVisibility())?.textContent);
    assert(error === undefined, `the tile that leads to ${link} shows ${error}`);
    if (link === "#/dead-letters") await page.waitForText("order-17-created");
  }
}
