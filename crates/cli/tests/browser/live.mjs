// The live tail by clicking: pause, what arrives meanwhile, continue, the filters.

import { startReceiver } from "./portal-setup.mjs";

export default async function ({ page, url, assert }) {
  const receiver = await startReceiver();
  const send = (id, destination, attempts = 1) => fetch(new URL("v1/webhook-outbox/events", url), {
    method: "POST", headers: { "content-type": "application/json" },
    body: JSON.stringify({ event_id: id, event_type: "order.created", destination_url: destination, payload: {}, max_attempts: attempts }),
  });
  const rows = () => page.evaluate(() => [...document.querySelectorAll(".window-rows .id")].map((link) => link.title));
  await page.goto(`${url}#/live`);
  await page.waitFor("live updates", () => document.querySelector("#connection").dataset.state === "live");
  await page.waitForText("Waiting for the next delivery.");
  await send("order-1", receiver.url);
  await page.waitForText("order-1");
  await page.waitFor("the type and the destination", (wanted) => { const row = document.querySelector(".window-rows .row"); return row.innerText.includes("order.created") && row.querySelector(".url").title === wanted; }, receiver.url);

  await page.click(".filters button");
  await page.waitForText("paused, none newer");
  await send("order-2", receiver.url);
  await send("order-3", "http://127.0.0.1:1/refuses");
  await page.waitForText("paused, 2 newer");
  assert((await rows()).join() === "order-1", "the paused tail moved");
  await page.screenshot("live-paused-1400");
  await page.press("p");
  await page.waitFor("all three notices", () => document.querySelectorAll(".window-rows .row").length === 3);

  await page.fill(".filters select", "failed");
  await page.waitFor("only the dead letter", () => document.querySelectorAll(".window-rows .row").length === 1);
  assert((await rows()).join() === "order-3", "the filter shows another notice");
  await page.fill(".filters select", "");
  await page.fill(".filters input", "no.such.type");
  await page.waitForText("No notice of this session matches.");
  await page.fill(".filters input", "order.created");
  await page.waitFor("every notice of the type", () => document.querySelectorAll(".window-rows .row").length === 3);
  await page.fill(".filters input", "refuses");
  await page.waitFor("only the refusing destination", () => [...document.querySelectorAll(".window-rows .id")].map((link) => link.title).join() === "order-3");
  assert(await page.evaluate(() => location.hash === "#/live?text=refuses"), "the filter is not in the URL");
  await page.press("/");
  await page.press("Escape");
  await page.fill(".filters input", "");
  await page.click(".window-rows .id[title='order-2']");
  await page.waitForText("HTTP 200");
  receiver.close();
}
