// Where the page of an event leads: to its destination, to all events of its endpoint, and to the event that was sent again.

import { createApi, startReceiver } from "./portal-setup.mjs";

export default async function ({ page, url, assert }) {
  const receiver = await startReceiver();
  const api = createApi(url);
  const { id: app } = await api("POST", "/app", { name: "Shop" });
  const { id: endpoint } = await api("POST", `/app/${app}/endpoint`, { url: receiver.url });
  await api("POST", `/app/${app}/msg`, { eventType: "order.created", payload: {} });
  const loaded = (count) => page.waitFor(`${count} rows`, (wanted) => document.querySelectorAll("#view .list .rows .row").length === wanted, count);

  await page.goto(`${url}#/events`);
  await loaded(1);
  await page.click("#view .row .id");
  await page.waitForText("HTTP 200");
  assert(await page.evaluate((id) => [...document.querySelectorAll(".facts dd")].some((fact) => fact.textContent === id), endpoint), "the endpoint is not named");
  await page.click(".facts a[href^='#/events?']");
  await loaded(1);
  assert(await page.evaluate((id) => location.hash === `#/events?endpoint_id=${id}`, endpoint), "the link does not name the endpoint");
  await page.click("#view .row .id");
  await page.click(".facts a[href^='#/destinations/']");
  await page.waitFor("the page of the endpoint, with what can be done", (name) => document.querySelector(".facts")?.textContent.includes(name) && document.querySelector("[aria-label^='Pause ']") !== null, endpoint);

  // An endpoint is found by its id. A URL that no event was enqueued to says where the events of endpoints are.
  await page.fill("#find-id", endpoint);
  await page.evaluate(() => document.querySelector("#find").requestSubmit());
  await page.waitFor("the page of the endpoint", () => location.hash.startsWith("#/destinations/"));
  await page.fill("#find-id", receiver.url);
  await page.evaluate(() => document.querySelector("#find").requestSubmit());
  await page.waitForText("The events of an endpoint have the endpoint's id");

  // An event that was sent again leads to the first one.
  await fetch(new URL("v1/webhook-outbox/events", url), { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ event_id: "order-17", event_type: "order.created", destination_url: receiver.url, payload: {} }) });
  await page.show("#/events/order-17");
  await page.waitForText("HTTP 200");
  await page.click("[data-action=replay]");
  await page.click("#confirm-submit");
  await page.waitFor("the page of the new event", () => location.hash.startsWith("#/events/order-17-"));
  await page.click(".facts a[href='#/events/order-17']");
  await page.waitFor("the page of the first event", () => document.querySelector(".event-title .mono").textContent === "order-17");
  receiver.close();
}
