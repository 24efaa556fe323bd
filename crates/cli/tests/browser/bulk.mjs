// Dead letters one by one and in bulk: the count first, then each action with its progress, stopped by the user or to its end.

import { startReceiver } from "./portal-setup.mjs";

// An operation of one event a second on this many lasts until it is stopped, also on a busy machine. The last digit is not zero: the
// page says "0 dead letters match" only if none does.
const COUNT = 125;

export default async function ({ page, url, assert, until }) {
  const receiver = await startReceiver();
  receiver.state.status = 500;
  const overview = () => fetch(new URL("v1/webhook-outbox/overview", url)).then((response) => response.json());
  const untilCounts = (what, test) => until(async () => `${what}: ${JSON.stringify(await overview())}`, async () => test(await overview()));
  const enqueue = (events) => fetch(new URL("v1/webhook-outbox/events", url), { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(events) });
  const confirm = () => page.click("#confirm-submit");
  const finished = () => page.waitFor("a finished operation", () => location.hash.startsWith("#/bulk/") && document.querySelector("progress.finished") !== null);

  await enqueue(Array.from({ length: COUNT }, (_, number) => ({ event_id: `order-${number}-created`, event_type: "order.created", destination_url: receiver.url.replace("hook", "orders"), payload: {}, max_attempts: 1 })));
  await untilCounts("dead letters", (counts) => counts.failed_count === COUNT);
  await page.goto(`${url}#/dead-letters`);
  await page.waitForText(`${COUNT} dead letters match`);
  await page.fill(".filters input[placeholder='Any type']", "no.such.type");
  await page.click(".filters button[type=submit]");
  await page.waitForText("0 dead letters match");
  assert(await page.evaluate(() => document.querySelector("[data-bulk=requeue]").disabled), "an action on nothing is offered");
  await page.fill(".filters input[placeholder='Any type']", "order.created");
  await page.click(".filters button[type=submit]");
  await page.waitForText(`${COUNT} dead letters match`);

  // Cancelled slowly, and stopped. The button keeps the focus while the progress changes.
  await page.fill(".bulk-bar input", "1");
  await page.click("[data-bulk=cancel]");
  await page.waitForText(`Cancel ${COUNT} dead letters?`);
  await page.fill("#reason", "refunded by hand");
  await page.screenshot("bulk-confirm-1400");
  await confirm();
  await page.waitFor("the page of the operation", () => location.hash.startsWith("#/bulk/"));
  await page.waitFor("progress", () => document.querySelector("progress")?.value >= 1);
  await page.waitForText("refunded by hand");
  await page.waitFor("who started the operation", () => /^\d.* by local$/.test([...document.querySelectorAll(".facts dt")].find((name) => name.textContent === "Started")?.nextElementSibling.textContent));
  await page.waitFor("the number in the navigation", () => document.querySelector("#nav-running").textContent === "1");
  await page.screenshot("bulk-running-1400");
  await page.show("#/bulk");
  await page.waitFor("the running operation", () => document.querySelector(".list.operations [data-action=stop]") !== null);
  await page.waitFor("who started each operation", () => document.querySelector(".list.operations .row .when").firstElementChild.textContent === "local");
  await page.evaluate(() => {
    const stop = document.querySelector(".list.operations [data-action=stop]");
    stop.focus();
    globalThis.progressOfStop = stop.closest(".row").querySelector("progress").value;
  });
  await page.waitFor("more progress, and the focus where it was", () => document.activeElement.dataset.action === "stop" && document.activeElement.closest(".row").querySelector("progress").value > globalThis.progressOfStop);
  await page.click(".list.operations [data-action=stop]");
  await confirm();
  await page.waitFor("a stopped operation", () => document.querySelector("progress.stopped") !== null);
  await page.click(".list.operations [data-open]");
  await page.waitForText("stopped after");
  await page.waitForText("Stopped by");
  await page.waitFor("no number in the navigation", () => document.querySelector("#nav-running").hidden);

  // The rest is cancelled to its end.
  await page.goto(`${url}#/dead-letters`);
  await page.waitForText("dead letters match");
  await page.fill(".bulk-bar input", "1000");
  await page.click("[data-bulk=cancel]");
  await confirm();
  await finished();
  await page.show("#/bulk");
  await page.waitFor("both operations in the list", () => document.querySelectorAll(".list.operations .row").length === 2);
  await page.screenshot("bulk-list-1400");
  await untilCounts("only cancelled events", (counts) => counts.failed_count === COUNT && counts.cancelled_count === COUNT);

  // One event is cancelled, another one discarded, by their own buttons.
  const invoice = (number) => ({ event_id: `invoice-${number}`, event_type: "invoice.paid", destination_url: receiver.url, payload: {}, max_attempts: 1 });
  await enqueue([1, 2, 3, 4, 5].map(invoice));
  await untilCounts("five dead letters", (counts) => counts.failed_count - counts.cancelled_count === 5);
  await page.show("#/dead-letters");
  await page.click("[data-action=cancel][aria-label='Cancel invoice-1']");
  await page.fill("#reason", "paid by hand");
  await confirm();
  await page.waitForToast("invoice-1 is cancelled.");
  await page.waitFor("four rows", () => document.querySelectorAll("#view .rows .row").length === 4);
  await page.click(".id[title='invoice-2']");
  await page.click("[data-action=discard]");
  await page.fill("#reason", "a test");
  await confirm();
  await page.waitForToast("invoice-2 is discarded.");
  await page.waitForText("was discarded");

  // All of this receiver, from the page of the destination: the repaired receiver gets them.
  receiver.state.status = 200;
  const sent = receiver.state.requests.length;
  await page.show("#/destinations");
  await page.click(`a[data-action=requeue][aria-label='Requeue all of ${receiver.url}']`);
  await page.waitForText("3 dead letters match");
  assert(await page.evaluate((wanted) => document.querySelector("[name=destination]").value === wanted, receiver.url), "the dead letters are not those of the receiver");
  await page.fill(".bulk-bar input", "1000");
  await page.click("[data-bulk=requeue]");
  await page.waitForText("Requeue 3 dead letters?");
  await confirm();
  await finished();
  await untilCounts("three deliveries", (counts) => counts.delivered_count === 3);
  const received = [...new Set(receiver.state.requests.slice(sent).map(({ headers }) => headers["webhook-id"]))].sort();
  assert(received.join() === "invoice-3,invoice-4,invoice-5", `the receiver got ${received}`);

  // What is left is discarded in bulk.
  receiver.state.status = 500;
  await enqueue([invoice(6)]);
  await untilCounts("a dead letter", (counts) => counts.failed_count - counts.cancelled_count === 1);
  await page.show("#/dead-letters");
  await page.waitForText("1 dead letter matches");
  await page.click("[data-bulk=discard]");
  await page.waitForText("Discard 1 dead letter?");
  await confirm();
  await finished();
  await untilCounts("a discarded event", (counts) => counts.failed_count === counts.cancelled_count);
  receiver.close();
}
