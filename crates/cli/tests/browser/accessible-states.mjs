// axe-core finds nothing on views without data, on errors and without a stream, nor in a toast, the result of a test event and the dialog of
// a bulk operation.

import { createAxe } from "./axe.mjs";
import { refuse, serveFake } from "./fake-server.mjs";
import { startReceiver } from "./portal-setup.mjs";

const VIEWS = ["#/", "#/live", "#/events", "#/dead-letters", "#/destinations", "#/endpoints", "#/bulk"];
// While the timers of the page stand still, a toast stays, and a stream that ended is not opened again. Both take longer than this.
const STILL_MS = 700;

/** Runs in the page before its own scripts: lets a test stop the timers that are longer than `stillMs`. */
function holdTimers() {
  const original = globalThis.setTimeout;
  globalThis.stillMs = Infinity;
  globalThis.setTimeout = (run, ms, ...values) => (ms >= globalThis.stillMs ? 0 : original(run, ms, ...values));
}

export default async function ({ page, url, options, assert, until }) {
  const axe = await createAxe(page, options, assert);
  const check = async (name) => {
    await axe(name);
    await page.resize(1400, 900);
  };
  const holdStill = () => page.evaluate((ms) => { globalThis.stillMs = ms; }, STILL_MS);
  await page.call("Page.addScriptToEvaluateOnNewDocument", { source: `(${holdTimers})()` });

  await page.goto(url);
  await page.waitFor("live updates", () => document.querySelector("#connection").dataset.state === "live");
  for (const view of VIEWS) {
    await page.show(view);
    await page.waitFor(`the view ${view} without data`, () => document.querySelector(".opening") === null && !document.querySelector("#view").innerText.includes("Loading") && [...document.querySelectorAll("#view :is(.empty, .first-steps)")].some((element) => element.checkVisibility()));
    await check(`empty${view.replace(/\W+/g, "-")}`);
  }

  // The result of a test event that fails. Its requeue is confirmed by a toast.
  const receiver = await startReceiver();
  receiver.state.status = 503;
  await page.show("#/send");
  await page.fill("input[type=url]", receiver.url);
  await page.click("form.send-form button[type=submit]");
  await page.waitFor("the result of the test event", () => document.querySelector(".send-result .event-title .pill")?.textContent === "exhausted" && document.querySelector(".send-result .timeline li.bad") !== null);
  await check("send-result");
  await page.show("#/dead-letters");
  await page.waitForText("1 dead letter matches");
  await page.click("[data-bulk=requeue]");
  await page.waitForElement("#confirm[open] #confirm-submit");
  await check("dialog-bulk");
  await page.press("Escape");
  await page.waitFor("a closed dialog", () => !document.querySelector("#confirm").open);
  await holdStill();
  await page.click(".row [data-action=requeue]");
  await page.click("#confirm-submit");
  await page.waitForToast("is pending again.");
  await check("toast");
  assert(await page.evaluate(() => document.querySelector("#toast").checkVisibility() && document.querySelector("#toast").textContent.includes("is pending again.")), "the toast was gone before it was looked at");
  receiver.close();

  // A server whose store is away: the banner, and the errors of lists and of the parts of the overview. Then its stream ends, too.
  const streams = new Set();
  const { base, close } = await serveFake(url, (path) => (path.includes("/whoami") ? { name: "local", role: null, permissions: ["read_all", "operate"] } : refuse(503, "the store is away")), { stream: (response) => streams.add(response) });
  for (const view of ["#/", "#/dead-letters", "#/events/order-17"]) {
    await page.goto(`${base}?${encodeURIComponent(view)}${view}`);
    // A view that may be outdated is dimmed on purpose. The contrast of its texts is that without the dimming.
    await page.evaluate(() => document.head.append(Object.assign(document.createElement("style"), { textContent: ".outdated .view { opacity: 1 }" })));
    await page.waitFor(`the banner and the error of ${view}`, () => document.querySelector("#problem").checkVisibility() && [...document.querySelectorAll("#view .error")].some((element) => element.checkVisibility()) && document.querySelector(".opening") === null);
    await check(`error${view.replace(/\W+/g, "-")}`);
  }
  await page.waitFor("live updates", () => document.querySelector("#connection").dataset.state === "live");
  await holdStill();
  await until("a stream", () => streams.size > 0);
  for (const stream of streams) stream.destroy();
  await page.waitFor("the state of a stream that ended", () => document.querySelector("#connection").dataset.state === "waiting");
  await check("reconnecting");
  assert(await page.evaluate(() => document.querySelector("#connection").dataset.state === "waiting"), "the page was connected again before it was looked at");
  close();
}
