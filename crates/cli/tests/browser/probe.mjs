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
  await page.click("[data-action=probe]");
  await page.waitForText("Probe this destination now?");
  // The receiver answers only after the operator has asked. Otherwise a probe that is due by itself could close the circuit before.
  let answer;
  receiver.state.gate = new Promise((resolve) => { answer = resolve; });
  receiver.state.status = 200;
  await page.click("#confirm-submit");
  await page.waitForToast("A probe is on its way.");
  answer();
  await page.waitForText("Events are sent.");
  await page.waitForText("probe by local");
  receiver.close();
}
