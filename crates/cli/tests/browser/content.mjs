// A delivered event: its content on a click, which is recorded, and a replay of it.

import { countMessages, startReceiver } from "./portal-setup.mjs";

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
  // Both events have the same webhook-id, and each has an idempotency key of its own.
  const { requests } = receiver.state;
  await until("a request for each event", () => new Set(requests.map(({ headers }) => headers["idempotency-key"])).size === 2);
  assert(countMessages(requests) === 1 && requests.every(({ body }) => body === requests[0].body), "the receiver did not get the same again");
  receiver.close();
}
