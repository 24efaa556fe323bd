// Pictures of every view, with no data, with much data, and with everything failing, for people to look at. No view is too wide.

import { startReceiver } from "./portal-setup.mjs";

const VIEWS = { overview: "#/", live: "#/live", events: "#/events", "dead-letters": "#/dead-letters", destinations: "#/destinations", endpoints: "#/endpoints", operations: "#/bulk", send: "#/send" };
const BATCH = 200;

export default async function ({ page, url, options, assert, until }) {
  const { state: kind, count } = options;
  const receiver = await startReceiver();
  const post = async (path, body) => {
    const response = await fetch(new URL(path, url), { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
    assert(response.ok, `${path}: ${response.status}`);
    return response.json();
  };
  if (kind === "failing") receiver.state.status = 503;
  for (let sent = 0; sent < count; sent += BATCH) {
    const events = Array.from({ length: BATCH }, (_, index) => ({
      destination_url: `${receiver.url}/${index % 40}`, event_type: ["invoice.paid", "customer.created", "payout.failed"][index % 3], payload: { number: sent + index }, max_attempts: 1,
    }));
    await post("v1/webhook-outbox/events", events);
  }
  if (count > 0) {
    await post("api/v1/app", { name: "Northwind Traders", uid: "northwind" });
    for (let number = 0; number < 30; number += 1) await post("api/v1/app/northwind/endpoint", { url: `${receiver.url}/endpoint-${number}`, description: `Team ${number}`, disabled: kind === "failing" });
    await post("api/v1/app/northwind/msg", { eventType: "invoice.paid", payload: {} });
  }
  // One of each: an event, a destination, an operation, and the portal of a customer.
  const views = { ...VIEWS };
  let portal = null;
  if (count > 0) {
    const get = (path) => fetch(new URL(path, url)).then((response) => response.json());
    const failed = kind === "failing" ? "status=failed" : "status=delivered";
    const event = await until("an event that has ended", async () => (await get(`v1/webhook-outbox/events?${failed}&limit=1`)).events[0]);
    views.event = `#/events/${event.event_id}`;
    views.destination = `#/destinations/${(await get("v1/webhook-outbox/destinations?limit=1")).destinations[0].destination_id}`;
    const bulk = await post("v1/webhook-outbox/bulk", { action: "requeue", filter: { event_type: "invoice.paid" }, rate_per_second: 1, reason: "the receiver is repaired" });
    views.operation = `#/bulk/${bulk.operation_id}`;
    views["test-of-endpoint"] = `#/send?app=northwind&endpoint=${(await get("api/v1/app/northwind/endpoint")).data[0].id}`;
    portal = await post("api/v1/auth/app-portal-access/northwind", {});
  }
  await page.goto(url);
  await page.waitFor("live updates", () => document.querySelector("#connection").dataset.state === "live");
  if (count > 0) await page.waitFor("attempts", (name) => Number(document.querySelector(`.tile[href='#/${name}'] .value`).textContent.replaceAll(",", "")) > 0, kind === "failing" ? "dead-letters" : "events?status=delivered");
  const shoot = async (name) => {
    await page.waitFor(`the view ${name} without "Loading"`, () => !document.querySelector("#view").innerText.includes("Loading"));
    for (const [width, colors] of [[1400, "light"], [1400, "dark"], [390, "light"], [390, "dark"]]) {
      await page.setColors(colors);
      await page.resize(width, 900);
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert(overflow <= 0, `${name} at ${width} px is ${overflow} px too wide`);
      await page.screenshot(`${kind}-${name}-${width}-${colors}`);
    }
  };
  for (const [name, hash] of Object.entries(views)) {
    await page.show(hash);
    if (name === "live" && count > 0) {
      await post("v1/webhook-outbox/events", Array.from({ length: 40 }, (_, index) => ({ destination_url: `${receiver.url}/live-${index % 7}`, event_type: ["invoice.paid", "customer.created"][index % 2], payload: {}, max_attempts: 1 })));
      await page.waitFor("notices", () => document.querySelectorAll(".window-rows .row").length > 8);
    }
    await shoot(name);
  }
  // A customer who has nothing yet is created only now: the views before are those of a server without applications.
  portal ??= await post(`api/v1/auth/app-portal-access/${(await post("api/v1/app", { name: "Northwind Traders", uid: "northwind" })).id}`, {});
  await page.goto(portal.url);
  await page.waitForText("Northwind Traders");
  await shoot("portal");
  if (count > 0) {
    await page.click(".row [data-open]");
    await shoot("portal-endpoint");
  } else {
    for (const view of ["messages", "new"]) {
      await page.show(`#/${view}`);
      await shoot(`portal-${view}`);
    }
  }
  receiver.close();
}
