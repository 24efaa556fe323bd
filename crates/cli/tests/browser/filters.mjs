// Events and dead letters by what the server filters: application, type, error, time and references; a link keeps all of it.

import { createApi } from "./portal-setup.mjs";

export default async function ({ page, url, assert }) {
  const api = createApi(url);
  const refuses = "http://127.0.0.1:1/refuses";
  const enqueue = (id, type, more = {}) => fetch(new URL("v1/webhook-outbox/events", url), {
    method: "POST", headers: { "content-type": "application/json" },
    body: JSON.stringify({ event_id: id, event_type: type, destination_url: refuses, payload: {}, max_attempts: 1, ...more }),
  });
  await api("POST", "/app", { name: "Shop", uid: "shop" });
  await api("POST", "/app/shop/endpoint", { url: refuses });
  await api("POST", "/app/shop/msg", { eventType: "order.created", payload: {} });
  await enqueue("invoice-1", "invoice.paid", { payment_request_id: "pr_17" });
  await enqueue("invoice-2", "invoice.paid", { session_id: "sess_17" });
  const ids = () => page.evaluate(() => [...document.querySelectorAll("#view .list .row .id")].map((link) => link.title).sort());
  const rows = (count) => page.waitFor(`${count} rows`, (wanted) => !document.querySelector("#view").innerText.includes("Loading") && document.querySelectorAll("#view .list .rows .row").length === wanted, count);
  const filter = async (values) => {
    await page.click("form .plain");
    for (const [name, value] of Object.entries(values)) await page.fill(`form [name=${name}]`, value);
    await page.click("form button[type=submit]");
  };

  await page.goto(`${url}#/dead-letters`);
  await rows(3);
  // Typed key by key and sent with Enter: in a field, no key is a shortcut of the page.
  await page.type("form [name=event_type]", "invoice.paid");
  await page.press("Enter");
  await rows(2);
  await page.waitFor("the typed condition in the address", () => location.hash === "#/dead-letters?event_type=invoice.paid");
  await filter({ app: "shop" });
  await rows(1);
  assert(!(await ids())[0].startsWith("invoice"), "the application's event is missing");
  await filter({ error_class: "connect", event_type: "invoice.paid" });
  await rows(2);
  await filter({ error_class: "http_5xx" });
  await rows(0);
  await filter({ until: "2020-01-01T00:00" });
  await rows(0);
  await filter({ destination: refuses, failure_kind: "exhausted" });
  await page.waitForText("2 dead letters match");

  // A link has instants, and the fields show them in the time of their reader.
  await page.call("Emulation.setTimezoneOverride", { timezoneId: "Asia/Kolkata" });
  await filter({ since: "2020-01-01T05:30" });
  await rows(3);
  assert(await page.evaluate(() => decodeURIComponent(location.hash) === "#/dead-letters?since=2020-01-01T00:00:00.000Z"), "the address has a time without a zone");
  await page.call("Emulation.setTimezoneOverride", { timezoneId: "America/New_York" });
  const link = await page.evaluate(() => location.href);
  await page.navigate("about:blank");
  await page.goto(link);
  await rows(3);
  assert(await page.evaluate(() => document.querySelector("form [name=since]").value === "2019-12-31T19:00"), "the field does not show the time of the link");
  await page.goto(`${url}?past#/dead-letters?until=2020-01-01T00:00:00.000Z`);
  await rows(0);

  await page.show("#/events?payment_request_id=pr_17");
  await rows(1);
  assert((await ids()).join() === "invoice-1", "the filter of the link is not applied");
  assert(await page.evaluate(() => document.querySelector("form [name=payment_request_id]").checkVisibility()), "a condition of the link is hidden");
  await filter({ session_id: "sess_17" });
  await rows(1);
  assert((await ids()).join() === "invoice-2" && await page.evaluate(() => location.hash === "#/events?session_id=sess_17"), "the filter is not in the URL");
  await filter({ event_id: "invoice-1" });
  await rows(1);
  await filter({ app: "shop", status: "failed" });
  await rows(1);
  await page.screenshot("filters-1400");
}
