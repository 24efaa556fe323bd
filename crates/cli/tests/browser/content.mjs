// A delivered event: its content on a click, which is recorded, and a replay of it.

import { startReceiver } from "./portal-setup.mjs";

export default async function ({ page, url, assert, until }) {
  const receiver = await startReceiver();
  await fetch(new URL("v1/webhook-outbox/events", url), {
    method: "POST", headers: { "content-type": "application/json" },
    body: JSON.stringify({ event_id: "order-17", event_type: "order.created", destination_url: receiver.url, payload: { card: "4711", html: "<b>no markup</b>" } }),
  });
  await page.goto(`${url}#/events/order-17`);
  await page.waitForText("HTTP 200");
  await page.waitForText("Each look is recorded");
  assert(await page.evaluate(() => !document.body.innerText.includes("4711")), "the payload is shown before the operator asks");
  await page.click("[data-action=content]");
  await page.waitForText('"card": "4711"');
  await page.waitForText("<b>no markup</b>");
  await page.waitForText("posthaste-event-type");
  await page.waitForText("Content looked at by local");
  await page.screenshot("content-1400");

  await page.click("[data-action=replay]");
  await page.click("#confirm-submit");
  // The page of the first event says the same, so the title counts.
  await page.waitFor("the page of the new event", () => {
    const [, view, id] = location.hash.split("/");
    return view === "events" && id !== "order-17" && document.querySelector(".event-title .mono").textContent === decodeURIComponent(id);
  });
  await page.waitForText("HTTP 200");
  await until("the second request", () => receiver.state.requests.length === 2);
  assert(receiver.state.requests[1].body === receiver.state.requests[0].body, "the receiver did not get the same again");
  receiver.close();
}
