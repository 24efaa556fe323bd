// A stream that ends, is rewound or is silent about failures: the page asks again, counts what it should, and says when it is not live.

import { serveFake } from "./fake-server.mjs";

const AT = () => new Date().toISOString();
const OPERATION = { operation_id: "bulk_1", action: "requeue", state: "finished", filter: {}, matched_count: 1, examined_count: 1, done_count: 1, rate_per_second: 1, reason: null, actor: "local", stopped_by: null, created_at: AT(), updated_at: AT() };

export default async function ({ page, url, assert, until }) {
  let stream = null;
  let isRefused = false;
  let running = [];
  let looks = 0;
  const answer = (path) => {
    const { pathname, searchParams } = new URL(path, url);
    if (pathname.endsWith("/bulk_1")) {
      looks += 1;
      return looks === 1 ? null : OPERATION;
    }
    switch (pathname.split("/").pop()) {
      case "whoami": return { name: "local", role: null, permissions: ["read_all"] };
      case "overview": return { pending_count: 1, pending_ready_count: 0, retrying_count: 0, failed_count: 0, cancelled_count: 0, delivered_count: 1, held_count: 0, held_count_capped: false, oldest_held_age_seconds: null, oldest_pending_age_seconds: 1 };
      case "bulk": return { operations: searchParams.get("state") === "running" ? running : [], next_cursor: null };
      case "operations": return { operations: [], next_cursor: null };
      default: return null;
    }
  };
  const send = (data) => stream.write(`data: ${JSON.stringify(data)}\n\n`);
  const notice = (type, kind = null) => send({ type, webhook_delivery_id: "order-1", event_type: "t", destination_url: "https://a.example/", attempts: 1, failure_kind: kind, at: AT() });
  const { base, close } = await serveFake(url, answer, { stream: (response) => {
    stream = response;
    if (isRefused) response.destroy();
  } });
  const live = () => page.waitFor("live updates", () => document.querySelector("#connection").dataset.state === "live");

  // The page of an operation that cannot be loaded at first; a rewound log is a reason to load it again.
  await page.goto(`${base}#/bulk/bulk_1`);
  await live();
  await page.waitForText("there is no such route");
  send({ topic: "gateway:webhooks", type: "NoticeLogResetEvent", message: "notices may be missing" });
  await page.waitForText("Requeue 1 dead letters");
  const before = looks;
  send({ topic: "gateway:webhooks", type: "NoticeLogResetEvent", message: "notices may be missing" });
  await until("another look after the log was rewound", () => looks > before);

  // The number of operations that run is in every view, and leaves it again.
  running = [OPERATION, OPERATION];
  await page.waitFor("two running operations", () => document.querySelector("#nav-running").textContent === "2");
  running = [];
  await page.waitFor("no running operation", () => document.querySelector("#nav-running").hidden);

  // A cancelled event is no failure of the receiver. Without a stream, nothing is known.
  await page.goto(`${base}?rate#/`);
  await live();
  /** Sends notices until the picture of the last seconds has what they say. */
  const sendUntil = async (missing, send, selector, isShown) => {
    for (let tries = 0; !isShown(await page.evaluate((wanted) => { const element = document.querySelector(wanted); return element.getAttribute("d") ?? element.textContent; }, selector)); tries += 1) {
      assert(tries < 200, `missing: ${missing}`);
      send();
      await page.evaluate(() => new Promise((drawn) => setTimeout(drawn, 200)));
    }
  };
  await sendUntil("the rate", () => {
    notice("WebhookDLQEvent", "cancelled");
    notice("WebhookEndpointDisabledEvent");
    notice("WebhookDeliveredEvent");
  }, ".tile.rate .value", (text) => Number(text) > 0);
  assert(await page.evaluate(() => document.querySelector(".sparkline .ticks").getAttribute("d") === ""), "a cancelled event is drawn as a failure");
  await sendUntil("the failure", () => notice("WebhookDLQEvent", "exhausted"), ".sparkline .ticks", (path) => path !== "");
  isRefused = true;
  stream.destroy();
  await page.waitFor("no rate without a stream", () => document.querySelector(".tile.rate").textContent.includes("not live") && document.querySelector(".tile.rate .value").textContent === "–");
  isRefused = false;
  await live();
  close();
}
