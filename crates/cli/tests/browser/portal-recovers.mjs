// Errors of single requests in the portal: what failed is asked for again, less and less often, and not at all once it cannot succeed.

import { refuse, serveFake } from "./fake-server.mjs";
import { signToken } from "./portal-setup.mjs";

const AT = "2026-01-31T12:00:00.000000Z";
const ENDPOINT = { id: "ep_1", uid: null, url: "https://a.example/", description: "", disabled: false, disabledReason: null, disabledAt: null, eventTypes: null, channels: null, throttleRate: null, ordering: "any", createdAt: AT, updatedAt: AT };

// How long two minutes of the clock of the page may take: it loads a few hundred responses meanwhile.
const TWO_MINUTES_MS_MAX = 120000;

export default async function ({ page, url, assert, until }) {
  /** How many requests for each part fail before one succeeds. */
  const failures = { "event-type": 2, headers: 2, task: 2 };
  const asked = {};
  const list = (data) => ({ data, iterator: null, prevIterator: null, done: true });
  const fails = (part) => {
    asked[part] = (asked[part] ?? 0) + 1;
    return asked[part] <= (failures[part] ?? 0);
  };
  const answer = (path) => {
    const parts = new URL(path, url).pathname.replace("/api/v1/", "").split("/");
    if (parts[0] === "event-type") return fails("event-type") ? refuse(503, "the store is away") : list([{ name: "invoice.paid", description: "" }]);
    if (parts[0] === "background-task") return fails("task") ? refuse(503, "the store is away") : { id: "task", status: "finished", task: "recover", data: { sent: 3, examined: 4 } };
    if (parts.at(-1) === "headers") return fails("headers") ? refuse(503, "the store is away") : { headers: { "X-Region": "eu" }, sensitive: [] };
    if (parts.at(-1) === "stats") return { success: 0, pending: 0, sending: 0, fail: 0 };
    if (parts.at(-1) === "recover") return { id: "task", status: "running", task: "recover" };
    if (parts[2] === "attempt") return list([]);
    if (parts[2] === "msg" && parts.length === 4) {
      asked[parts[3]] = (asked[parts[3]] ?? 0) + 1;
      return parts[3] === "msg_unknown" ? null : { id: "msg_1", eventId: null, eventType: "invoice.paid", payload: {}, channels: null, tags: null, timestamp: AT };
    }
    if (parts[2] === "msg") return list([{ ...ENDPOINT, statusText: "pending", nextAttempt: AT }]);
    if (parts[2] === "endpoint") return parts.length === 3 ? list([ENDPOINT]) : ENDPOINT;
    return { id: "app_1", uid: null, name: "Shop" };
  };
  const { base, close } = await serveFake(url, answer);
  const token = signToken("any", { sub: "app_1", org: "org_1", exp: Math.floor(Date.now() / 1000) + 3600 });
  await page.goto(`${base}portal#token=${token}`);
  await page.waitForText("Shop");

  await page.show("#/new");
  await page.waitForText("the store is away");
  await page.click("input[value=some]");
  await page.waitFor("the event types", () => document.querySelector("input[value='invoice.paid']") !== null);
  await page.waitFor("a form without an error", () => document.querySelector(".send-form .error").hidden);

  await page.show("#/endpoints/ep_1");
  await page.waitFor("the error of the headers", () => document.querySelector("[aria-label='Custom headers'] .error:not([hidden])") !== null);
  await page.waitForText("X-Region eu");
  await page.waitFor("headers without an error", () => document.querySelector("[aria-label='Custom headers'] .error:not([hidden])") === null);
  await page.click("[data-action=recover]");
  await page.click("#confirm-submit");
  await page.waitForText("The progress could not be loaded.");
  await page.waitFor("the end of the recovery", () => document.querySelector(".task-line").innerText.includes("finished"));

  // Two minutes of the clock of the page: a message that is waiting is asked for a few times, one that does not exist once.
  const passTwoMinutes = async () => {
    let hasPassed = false;
    page.on("Emulation.virtualTimeBudgetExpired", () => { hasPassed = true; });
    await page.call("Emulation.setVirtualTimePolicy", { policy: "pauseIfNetworkFetchesPending", budget: 120000 });
    await until("the end of two minutes", () => hasPassed, TWO_MINUTES_MS_MAX);
  };
  await page.show("#/messages/msg_1");
  await page.waitForText("invoice.paid");
  const before = asked.msg_1;
  await passTwoMinutes();
  const count = asked.msg_1 - before;
  assert(count >= 5 && count <= 25, `a message that waits was asked for ${count} times in two minutes`);
  // The clock of the page stands still, so the view opens when it goes on.
  await page.evaluate(() => { location.hash = "#/messages/msg_unknown"; });
  await passTwoMinutes();
  assert(asked.msg_unknown === 1, `a message that does not exist was asked for ${asked.msg_unknown} times`);
  await page.waitFor("the error of a message that does not exist", () => document.querySelector("#view .error:not([hidden])") !== null);
  close();
}
