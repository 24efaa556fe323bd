// The count of a bulk operation takes long: the page says that it counts, opens no dialog over another one, and counts again when the
// number of dead letters has changed.

import { CALM, serveFake } from "./fake-server.mjs";

const AT = new Date().toISOString();
const eventOf = (id) => ({
  event_id: id, event_type: "order.created", destination_id: "1", destination_url: "https://a.example/", webhook_id: null, delivery_status: "failed", failure_kind: "exhausted", attempts: 1, max_attempts: 1,
  last_error: "HTTP 503", next_attempt_at: null, created_at: AT, updated_at: AT,
});

export default async function ({ page, url, assert, until }) {
  let failed = 0;
  let isSlow = true;
  /** The functions that answer the counts that wait. */
  const waiting = [];
  const counts = () => waiting.length;
  const answer = (path, body) => {
    switch (new URL(path, url).pathname.split("/").pop()) {
      case "whoami": return { name: "local", role: null, permissions: ["read_all", "operate"] };
      case "overview": return { ...CALM, failed_count: failed };
      case "dlq": return { events: failed > 0 ? [eventOf("order-1")] : [], next_cursor: null, searched_until: null };
      case "operations": return { operations: [], next_cursor: null };
      case "bulk": {
        if (body === null) return { operations: [], next_cursor: null };
        const result = { matched_count: failed, is_exact: true };
        return isSlow ? new Promise((respond) => waiting.push(() => respond(result))) : result;
      }
      default: return null;
    }
  };
  const respond = async () => {
    await until("a count", () => counts() > 0);
    waiting.shift()();
  };
  const { base, close } = await serveFake(url, answer);
  const isDisabled = () => page.evaluate(() => [...document.querySelectorAll("[data-bulk]")].every((button) => button.disabled));

  // The bar is there before its count, and follows the number of dead letters.
  await page.goto(`${base}#/dead-letters`);
  await page.waitFor("the bar", () => document.querySelector(".bulk-bar").innerText.includes("Counting…"));
  assert(await isDisabled(), "an operation is offered before its count");
  await respond();
  await page.waitForText("0 dead letters match");
  assert(await isDisabled(), "an operation on nothing is offered");
  isSlow = false;
  failed = 3;
  await page.waitForText("3 dead letters match");
  await page.waitForText("order-1");
  assert(!(await isDisabled()), "the bar stayed disabled");

  // A rate of zero is refused.
  isSlow = true;
  await page.fill(".bulk-bar input", "0");
  await page.click("[data-bulk=cancel]");
  assert(await page.evaluate(() => !document.querySelector(".bulk-bar input").validity.valid && !document.querySelector("#confirm").open), "a rate of zero is accepted");
  assert(counts() === 0, "an operation without a rate is counted");
  await page.fill(".bulk-bar input", "10");

  // A slow count is visible, and does not replace the dialog that was opened meanwhile.
  await page.click("[data-bulk=discard]");
  await page.waitFor("a bar that counts", () => document.querySelector(".bulk-bar").innerText.includes("Counting…"));
  assert(await isDisabled(), "a second operation is offered while the page counts");
  await page.click("[aria-label='Requeue order-1']");
  await page.waitForText("Requeue this event?");
  await respond();
  await page.waitForText("3 dead letters match");
  await page.settle();
  assert(await page.evaluate(() => document.querySelector("#confirm-title").textContent === "Requeue this event?"), "a late count replaced the open dialog");
  await page.press("Escape");
  await page.waitFor("a closed dialog", () => !document.querySelector("#confirm").open);

  // Without another dialog, the count is confirmed. The shortcuts of the page behind it do nothing, also without the focus in it.
  await page.click("[data-bulk=discard]");
  await respond();
  await page.waitForText("Discard 3 dead letters?");
  await page.evaluate(() => document.activeElement.blur());
  await page.press("g");
  await page.press("e");
  assert(await page.evaluate(() => location.hash === "#/dead-letters"), "a shortcut left the view behind a dialog");
  await page.press("Escape");
  await page.waitFor("the focus on the button again", () => document.activeElement.dataset.bulk === "discard");
  close();
}
