// The charts: what is drawn, the legend, the crosshair by pointer and by keyboard, the ranges, and what is shown when a part fails.

import { findColor } from "./chart-colors.mjs";
import { refuse, serveFake } from "./fake-server.mjs";

const STEP = 60;
/** The server's clock is two hours behind that of the browser. */
const AHEAD_MS = -2 * 3600 * 1000;

const pointOf = (second, index) => ({
  at: new Date(second * 1000).toISOString(), delivered_count: 600 + index * 6, retried_count: 60, failed_count: index === 50 ? 120 : 0,
  latency_p50_ms: 12, latency_p95_ms: 80, latency_p99_ms: 250 + index, pending_count: 40 + index, dead_letter_count: 7,
});

export default async function ({ page, url, assert, until }) {
  const broken = new Set();
  let status = 500;
  const ranges = [];
  const answer = (path) => {
    const { pathname, searchParams } = new URL(path, url);
    const name = pathname.split("/").pop();
    if (broken.has(name)) return refuse(status, status === 404 ? "not here" : `the ${name} are being repaired`);
    switch (name) {
      case "whoami": return { name: "local", role: null, permissions: ["read_all"] };
      case "overview": return { pending_count: 40, pending_ready_count: 0, retrying_count: 0, failed_count: 0, cancelled_count: 0, delivered_count: 900, held_count: 0, held_count_capped: false, oldest_held_age_seconds: null, oldest_pending_age_seconds: 3 };
      case "history": {
        ranges.push(searchParams.get("range"));
        const now = Math.floor((Date.now() + AHEAD_MS) / 1000 / STEP) * STEP;
        return { range: searchParams.get("range"), step_seconds: STEP, points: Array.from({ length: 60 }, (_, index) => pointOf(now - (60 - index) * STEP, index)) };
      }
      case "workers": return { workers: [{ worker_id: "worker-1", version: "1", started_at: new Date().toISOString(), heartbeat_age_seconds: 1, in_flight: 2 }] };
      case "trouble": return { counts: [], worst: [] };
      case "doctor": return { findings: [] };
      case "bulk": case "operations": return { operations: [], next_cursor: null };
      default: return null;
    }
  };
  const { base, close } = await serveFake(url, answer, { dateMs: () => Date.now() + AHEAD_MS });
  const legend = (number) => page.evaluate((index) => document.querySelectorAll(".chart .legend")[index].innerText.replaceAll("\n", " "), number);
  const drawn = async (chart, color) => (await findColor(page, chart, color)).count;

  await page.goto(base);
  await page.waitFor("four charts with data", () => document.querySelectorAll(".chart canvas").length === 4 && document.querySelectorAll(".chart .empty[hidden]").length === 4 && document.querySelector(".opening") === null);
  for (const [chart, color] of [[0, "delivered"], [0, "retried"], [1, "p50"], [1, "p95"], [1, "p99"], [2, "delivered"], [3, "failed"]]) {
    await until(async () => `${color} in chart ${chart}, which has ${await drawn(chart, color)} pixels of it`, async () => await drawn(chart, color) > 100);
  }
  // When a minute begins, the page may know it before or after the points do: the next poll agrees.
  for (const [chart, texts] of [["delivered 16", "latest"], ["p50 12 ms", "p99 309 ms"], ["pending events 99"]].entries()) {
    await until(async () => `${texts} in the legend ${await legend(chart)}`, async () => { const shown = await legend(chart); return texts.every((text) => shown.includes(text)); });
  }
  const ticks = await page.evaluate(() => document.querySelector(".chart .u-axis") !== null);
  assert(ticks, "the charts have no axes");

  // The crosshair shows the values at the pointer, in all charts, and the arrow keys move it.
  await page.hover(".chart .u-over");
  await page.waitFor("values at the pointer", () => !document.querySelector(".chart .legend .at").textContent.includes("latest"));
  const at = await page.evaluate(() => [...document.querySelectorAll(".chart .legend .at")].map((element) => element.textContent));
  assert(at.length === 4 && new Set(at).size === 1, `the charts show different times: ${at}`);
  assert(!(await legend(2)).includes("pending events 99"), "the values do not follow the pointer");
  await page.point(5, 5);
  await page.waitFor("the latest values again", () => document.querySelector(".chart .legend .at").textContent === "latest");
  await page.evaluate(() => document.querySelectorAll(".chart .plot")[2].focus());
  for (let step = 0; step < 10; step += 1) await page.pressKey("ArrowLeft", 37);
  await page.waitFor("the value ten steps back", () => document.querySelectorAll(".chart .legend")[2].textContent.includes("pending events 90"));

  // Another range is asked for, and is in the address.
  await page.click(".segments button:nth-child(4)");
  await page.waitFor("the range in the address", () => location.hash === "#/?range=24h" || location.hash === "#/overview?range=24h");
  await page.waitFor("the pressed button", () => document.querySelector(".segments [aria-pressed=true]").textContent === "24h");
  await until(() => `a request for 24h, the page asked for ${ranges}`, () => ranges.at(-1) === "24h");

  // A part that fails says so in its panel, and comes back. The others stay.
  for (const name of ["history", "workers", "trouble"]) broken.add(name);
  for (const [name, text] of [["History", "the history are being repaired"], ["Workers", "the workers are being repaired"], ["Destinations in trouble", "the trouble are being repaired"]]) {
    await page.waitFor(`the error of ${name}`, (label, wanted) => document.querySelector(`[aria-label='${label}'] .error:not([hidden])`)?.textContent.includes(wanted), name, text);
  }
  await page.waitForText("so what is shown may be outdated.");
  assert(await drawn(0, "delivered") > 10, "the charts vanished");
  await page.screenshot("overview-part-failed-1400");
  await page.goto(`${base}?again`);
  await page.waitFor("the error of a part that was never loaded", () => document.querySelector("[aria-label=Workers] .error:not([hidden])") !== null);
  assert(await page.evaluate(() => !document.querySelector("[aria-label=Workers]").innerText.includes("Loading")), "a part that failed still claims to load");
  await page.screenshot("overview-part-never-loaded-1400");
  // Also a 404, as from another version of the server or from a proxy, is not the end.
  status = 404;
  await page.waitFor("the 404 of a part", () => document.querySelector("[aria-label=Workers] .error")?.textContent.includes("not here"));
  broken.clear();
  await page.waitFor("the parts again", () => document.querySelector("#view .error:not([hidden])") === null && document.querySelector("[aria-label=Workers]").innerText.includes("worker-1"));
  await page.waitFor("the charts again", () => document.querySelectorAll(".chart canvas").length === 4);
  close();
}
