// The page asks for a key, hides what its role may not do, and stores the key nowhere.

import { startReceiver } from "./portal-setup.mjs";

// An operation of one event a second on this many lasts for all callers, also on a busy machine.
const FAILED = 300;

/** What a role sees of each view: where, what shows that the view is loaded, and what only an operator sees. */
const VIEWS = [
  ["#/bulk", ".list.operations .row", [".list.operations [data-action=stop]"]],
  ["#/events/order-17-created", ".timeline li.bad", ["[data-action=requeue]", "[data-action=cancel]", "[data-action=discard]", "[data-action=content]"]],
  ["#/events/order-18-delivered", ".timeline li.ok", ["[data-action=replay]", "[data-action=content]"]],
  ["#/dead-letters?event_type=order.created", ".id[title='order-17-created']", [".row [data-action=requeue]", ".row [data-action=cancel]", ".bulk-bar", "[data-bulk=discard]"]],
  ["#/destinations", ".list.destinations .row", [".row button[aria-label^='Resume ']", ".row [data-action=requeue]"]],
  ["#/endpoints", ".list.destinations .row", [".row [data-action=disable]", ".row [data-action=rotate]", ".row [data-action=test]"]],
];
const OF_ENDPOINT = ["[data-action=recover]", "[data-action=replay]", "[data-action=disable]", "[data-action=rotate]", "[data-action=test]"];

export default async function ({ page, url, options, assert, until }) {
  const operator = options.callers.find(({ mayOperate }) => mayOperate).key;
  const call = async (method, path, body) => {
    const response = await fetch(new URL(path, url), { method, headers: { authorization: `Bearer ${operator}`, "content-type": "application/json" }, body: body && JSON.stringify(body) });
    assert(response.ok, `${path}: ${response.status}`);
    return response.json();
  };
  const { destinations: [paused] } = await call("GET", "v1/webhook-outbox/destinations?state=failing");
  await call("POST", `v1/webhook-outbox/destinations/${paused.destination_id}/pause`, {});
  await call("POST", "api/v1/app", { name: "Shop", uid: "shop" });
  const { id: endpoint } = await call("POST", "api/v1/app/shop/endpoint", { url: "http://127.0.0.1:1/endpoint" });
  const receiver = await startReceiver();
  receiver.state.status = 500;
  await call("POST", "v1/webhook-outbox/events", Array.from({ length: FAILED }, () => ({ event_type: "invoice.paid", destination_url: receiver.url, payload: {} })));
  // One more has failed before.
  await until("dead letters", async () => (await call("GET", "v1/webhook-outbox/overview")).failed_count === FAILED + 1);
  const bulk = await call("POST", "v1/webhook-outbox/bulk", { action: "requeue", filter: { event_type: "invoice.paid" }, rate_per_second: 1 });
  for (const { key, caller, mayOperate } of options.callers) {
    await page.goto(`${url}?${caller}#/bulk/${bulk.operation_id}`);
    await page.waitForElement("#key-value");
    await page.fill("#key-value", key);
    await page.click("#key-form button[type=submit]");
    await page.waitForText(caller);
    await page.waitFor("the operation", () => document.querySelector("progress") !== null);
    const visible = (selector) => page.evaluate((wanted) => document.querySelector(wanted)?.checkVisibility() ?? false, selector);
    /** Checks what is offered at a place. What the role may not do is looked for once the page has shown all it has loaded. */
    const check = async (where, selectors) => {
      if (!mayOperate) {
        await page.waitFor(`the lists at ${where}, without actions`, () => [...document.querySelectorAll("#view .list:not([hidden])")].every((list) => list.matches(".read-only[aria-busy=false]") && list.querySelector(".row") !== null));
        await page.settle();
      }
      for (const selector of selectors) {
        if (mayOperate) await page.waitForElement(selector);
        else assert(!(await visible(selector)), `${caller} sees ${selector} at ${where}`);
      }
    };
    await page.waitFor("who started the operation", () => /^\d.* by ops$/.test([...document.querySelectorAll(".facts dt")].find((name) => name.textContent === "Started")?.nextElementSibling.textContent));
    await check("the operation", ["[data-action=stop]"]);
    const ofPaused = [`#/destinations/${paused.destination_id}`, ".facts", ["button[aria-label^='Resume ']", "[data-action=requeue]"]];
    for (const [hash, ready, selectors] of [...VIEWS, ofPaused]) {
      await page.show(hash);
      await page.waitForElement(ready);
      await check(hash, selectors);
    }
    await page.show(`#/destinations/${BigInt(`0x${endpoint.slice(3)}`)}`);
    await page.waitForElement(".facts");
    await check("the page of an endpoint", OF_ENDPOINT);
    await page.show(`#/send?app=shop&endpoint=${endpoint}`);
    await page.waitFor("the URL of the endpoint", () => document.querySelector(".send-form input[readonly]")?.value === "http://127.0.0.1:1/endpoint");
    await page.waitFor("the button of the form", (may) => document.querySelector(".send-form button[type=submit]").disabled !== may, mayOperate);
    assert(await visible("#nav-send") === mayOperate, `${caller}: test event`);
    const stored = await page.evaluate(() => JSON.stringify([{ ...sessionStorage }, { ...localStorage }, document.cookie, Object.values(globalThis).filter((value) => typeof value === "string")]));
    assert(!stored.includes(key), `the key is where another script can read it: ${stored}`);
  }
  // A command that the page suggests has the name of a variable for the key, and not the key.
  await page.show("#/events");
  await page.waitForElement(".list.events .row");
  assert(await page.evaluate((key) => !document.documentElement.outerHTML.includes(key), operator), "the key is in the document");
  receiver.close();
}
