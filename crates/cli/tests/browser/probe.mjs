// A receiver that has recovered: the operator probes it now, instead of waiting for the next probe, and its circuit closes.

import { startReceiver } from "./portal-setup.mjs";

const FAILURES = 12;

export default async function ({ page, url }) {
  const receiver = await startReceiver();
  receiver.state.status = 503;
  const events = Array.from({ length: FAILURES }, (_, index) => ({ event_id: `order-${index}`, event_type: "order.created", destination_url: receiver.url, payload: {} }));
  await fetch(new URL("v1/webhook-outbox/events", url), { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(events) });
  await page.goto(`${url}#/destinations?state=circuit_open`);
  await page.click(".list.destinations .row [data-open]");
  await page.waitForText("What operators did");
  await page.waitForText("Next probe");
  receiver.state.status = 200;
  await page.click("[data-action=probe]");
  await page.click("#confirm-submit");
  await page.waitForText("A probe is on its way.");
  await page.waitForText("Events are sent.");
  await page.waitForText("probe by local");
  receiver.close();
}
