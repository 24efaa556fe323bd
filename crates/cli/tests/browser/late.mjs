// Responses that come late: they neither close nor write into the dialog or the view that is open by then.

import { CALM, serveFake } from "./fake-server.mjs";

const eventOf = (id, more = {}) => ({
  event_id: id, event_type: "order.created", destination_url: "https://a.example/", delivery_status: "failed", failure_kind: "exhausted", attempts: 1, max_attempts: 1, last_error: "HTTP 503", next_attempt_at: null,
  created_at: "2026-01-31T12:00:00.000000Z", updated_at: "2026-01-31T12:00:00.000000Z", explanation: "", history: [], audit: [], ...more,
});

export default async function ({ page, url, assert, until }) {
  /** Requests that wait for the test: the function that answers each. */
  const waiting = new Map();
  const later = (name) => new Promise((answer) => waiting.set(name, answer));
  const answerTo = async (name, body) => {
    await until(`a request for ${name}`, () => waiting.has(name));
    waiting.get(name)(body);
    waiting.delete(name);
  };
  let isSlow = false;
  let detail = eventOf("order-1");
  const answer = (path) => {
    const { pathname } = new URL(path, url);
    const name = pathname.split("/").pop();
    switch (name) {
      case "overview": return CALM;
      case "whoami": return { name: "local", role: null, permissions: ["read_all", "operate", "enqueue"] };
      case "dlq": return { events: [eventOf("order-1"), eventOf("order-2")], next_cursor: null, searched_until: null };
      case "events": return path.includes("?") ? { events: [], next_cursor: null, searched_until: null } : later("enqueue");
      case "bulk": return pathname.endsWith("bulk") && { matched_count: 2, is_exact: true, operations: [], next_cursor: null };
      case "operations": return { operations: [], next_cursor: null };
      case "requeue": return later("requeue");
      case "order-1": return isSlow ? later("order-1") : detail;
      default: return null;
    }
  };
  const { base, close } = await serveFake(url, answer);

  // The response to an action whose dialog was left does not close the next dialog.
  await page.goto(`${base}#/dead-letters`);
  await page.click("[aria-label='Requeue order-1']");
  await page.click("#confirm-submit");
  await page.waitForText("Requeueing…");
  await page.press("Escape");
  await page.click("[aria-label='Cancel order-2']");
  await page.waitForText("Cancel this event?");
  assert(await page.evaluate(() => !document.querySelector("#confirm-submit").disabled), "the new dialog is busy with the old action");
  await answerTo("requeue", { event_id: "order-1", delivery_status: "pending" });
  await page.waitForToast("order-1 is pending again.");
  assert(await page.evaluate(() => document.querySelector("#confirm").open && document.querySelector("#confirm-title").textContent === "Cancel this event?"), "the late response closed another dialog");
  assert(await page.evaluate(() => document.querySelector("#confirm-submit").textContent === "Cancel event"), "the late response renamed the button of another dialog");
  await page.press("Escape");
  await page.waitFor("a closed dialog", () => !document.querySelector("#confirm").open);
  await page.click("[aria-label='Requeue order-1']");
  await page.click("#confirm-submit");
  await page.waitForText("Requeueing…");
  await page.press("Escape");
  await page.click("[aria-label='Requeue order-2']");
  await answerTo("requeue", { status: 409, error: { code: "conflict", message: "order-1 is being sent" } });
  await page.waitForToast("Requeue failed. order-1 is being sent");
  assert(await page.evaluate(() => document.querySelector("#confirm-error").hidden), "the late error is shown in another dialog");
  await page.press("Escape");

  // A test event whose response comes after the user has left does not change the address of the other view.
  await page.goto(`${base}?send#/send`);
  await page.click("form.send-form button[type=submit]");
  await page.waitFor("a form that is sending", () => document.querySelector(".send-form button[type=submit]").disabled);
  await page.show("#/events");
  await page.waitForText("Newest first.");
  await answerTo("enqueue", { event_id: "order-9" });
  await page.settle();
  assert(await page.evaluate(() => location.hash === "#/events"), "a late response changed the address of another view");

  // Of two responses about the same event, the one to the later request is shown.
  await page.goto(`${base}?event#/events/order-1`);
  await page.waitForText("exhausted");
  isSlow = true;
  await page.press("r");
  await until("another request for the event", () => waiting.has("order-1"));
  isSlow = false;
  detail = eventOf("order-1", { delivery_status: "delivered", failure_kind: null, last_error: null, delivered_at: "2026-01-31T12:00:05.000000Z", updated_at: "2026-01-31T12:00:05.000000Z" });
  await page.press("r");
  await page.waitFor("the delivered event", () => document.querySelector(".event-title .pill").textContent === "delivered");
  await answerTo("order-1", eventOf("order-1"));
  await page.settle();
  assert(await page.evaluate(() => document.querySelector(".event-title .pill").textContent === "delivered"), "an old response replaced a newer one");
  close();
}
