// axe-core finds nothing on any view of the operators' page, with data, nor in any dialog.

import { createAxe } from "./axe.mjs";
import { createApi, startReceiver } from "./portal-setup.mjs";

const VIEWS = ["#/", "#/live", "#/events", "#/events/order-17-created", "#/dead-letters", "#/destinations", "#/endpoints", "#/bulk", "#/send"];

export default async function ({ page, url, options, assert }) {
  const check = await createAxe(page, options, assert);
  const api = createApi(url);
  const receiver = await startReceiver();
  await page.goto(url);
  await page.waitFor("live updates", () => document.querySelector("#connection").dataset.state === "live");
  // Endpoints, one of which is disabled, a bulk operation, a recovery and a notice.
  await api("POST", "/app", { name: "Northwind Traders", uid: "northwind" });
  const { id: endpoint } = await api("POST", "/app/northwind/endpoint", { url: receiver.url, description: "Bookkeeping" });
  await api("POST", "/app/northwind/endpoint", { url: "http://127.0.0.1:1/off", disabled: true });
  await api("POST", "/app/northwind/msg", { eventType: "invoice.paid", payload: {} });
  await api("POST", `/app/northwind/endpoint/${endpoint}/recover`, { since: new Date(Date.now() - 3600000).toISOString() });
  const bulk = await fetch(new URL("v1/webhook-outbox/bulk", url), { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ action: "requeue", filter: { event_type: "order.created" }, rate_per_second: 1 }) }).then((response) => response.json());
  const { destinations: [destination] } = await fetch(new URL("v1/webhook-outbox/destinations?state=failing", url)).then((response) => response.json());
  const ofDestination = `#/destinations/${destination.destination_id}`;
  await page.show("#/live");
  await page.waitFor("a notice", () => document.querySelector(".window-rows .row") !== null);
  for (const view of [...VIEWS, ofDestination, `#/bulk/${bulk.operation_id}`]) {
    await page.show(view);
    await page.waitFor(`the view ${view} without "Loading"`, () => !document.querySelector("#view").innerText.includes("Loading"));
    if (view === "#/bulk") await page.waitFor("both operations", () => document.querySelectorAll(".list.operations .row").length === 2);
    if (view === "#/endpoints") await page.waitFor("both endpoints", () => document.querySelectorAll(".list.destinations .row").length === 2);
    if (view === "#/live") await page.waitFor("the notices", () => document.querySelector(".window-rows .row") !== null);
    await check(view === ofDestination ? "-destination" : view.replace(bulk.operation_id, "one").replace(/\W+/g, "-"));
  }
  const closed = (dialog) => page.waitFor(`the closed dialog ${dialog}`, (wanted) => !document.querySelector(wanted).open, dialog);
  const inDialog = async (dialog, name) => {
    await page.waitFor(`the dialog ${dialog}`, (wanted) => document.querySelector(wanted)?.open, dialog);
    await check(`dialog-${name}`);
    await page.resize(1400, 900);
  };
  await page.press("?");
  await inDialog("#help", "help");
  await page.press("Escape");
  await closed("#help");
  await page.show(ofDestination);
  await page.waitForText("What operators did");
  await page.click("button[aria-label^='Pause ']");
  await inDialog("#confirm", "pause");
  await page.press("Escape");
  await closed("#confirm");
  await page.show("#/endpoints");
  await page.click(".row [data-action=rotate]");
  await inDialog("#confirm", "rotate");
  await page.click("#confirm-submit");
  await inDialog("#new-secret", "secret");
  await page.press("Escape");
  await closed("#new-secret");
  await page.evaluate(() => document.querySelector("#key").showModal());
  await inDialog("#key", "key");
  receiver.close();
}
