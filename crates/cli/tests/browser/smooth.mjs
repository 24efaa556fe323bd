// Ten thousand rows and a hundred notices a second: few elements, no task that blocks the page, and few frames that come late.

import { serveFake } from "./fake-server.mjs";

const ROWS = 10000;
const PAGE = 200;
const TICK_MS = 50;
const NOTICES_PER_TICK = 5;
// The page must answer a key within this time, on a busy machine with two cores.
const TASK_MS_MAX = 250;
// Part of the frames that may take longer than a tenth of a second. A busy machine delays single frames, and a slow page many.
const LATE_FRAMES_MAX = 0.1;
const AT = Date.now();

const eventOf = (number) => ({
  event_id: `order-${number}-created`, event_type: "order.created", destination_url: `https://receiver-${number % 50}.example/hook`, delivery_status: "failed", failure_kind: "exhausted", attempts: 3, max_attempts: 3,
  last_error: "HTTP 503: try later", next_attempt_at: null, created_at: new Date(AT - number * 1000).toISOString(), updated_at: new Date(AT - number * 1000).toISOString(),
});

function answer(path) {
  const { pathname, searchParams } = new URL(path, "http://any.example");
  switch (pathname.split("/").pop()) {
    case "whoami": return { name: "local", role: null, permissions: ["enqueue", "read_event", "read_all", "operate"] };
    case "overview": return { pending_count: 0, pending_ready_count: 0, retrying_count: 0, failed_count: ROWS, cancelled_count: 0, delivered_count: 0, held_count: 0, held_count_capped: false, oldest_pending_age_seconds: null };
    case "dlq": case "events": {
      const first = Number(searchParams.get("cursor") ?? 0);
      const last = Math.min(first + Math.min(Number(searchParams.get("limit")), PAGE), ROWS);
      return { events: Array.from({ length: last - first }, (_, index) => eventOf(first + index)), next_cursor: last < ROWS ? String(last) : null, searched_until: null };
    }
    default: return null;
  }
}

export default async function ({ page, url, assert }) {
  let sent = 0;
  const timers = [];
  const stream = (response) => timers.push(setInterval(() => {
    for (let index = 0; index < NOTICES_PER_TICK; index += 1, sent += 1) {
      const notice = { type: "WebhookDeliveredEvent", webhook_delivery_id: `order-${sent}-sent`, attempts: 1, at: new Date().toISOString() };
      response.write(`id: 1:${sent}\ndata: ${JSON.stringify(notice)}\n\n`);
    }
  }, TICK_MS));
  const { base, close } = await serveFake(url, answer, { stream });

  await page.goto(`${base}#/dead-letters`);
  await page.waitFor("the first rows", () => document.querySelectorAll("#view .row").length >= 50);
  const found = await page.waitFor("ten thousand rows", (rows) => {
    const more = document.querySelector("#view .more");
    if (more.checkVisibility() && !more.disabled) more.click();
    const count = document.querySelectorAll("#view .list .rows .row").length;
    return count >= rows ? count : null;
  }, ROWS);
  assert(found === ROWS, `${found} rows`);

  // From now on, every long task counts: scrolling, moving by keys, and a hundred notices a second.
  await page.evaluate(() => {
    globalThis.longTasks = [];
    globalThis.frames = [];
    let last = performance.now();
    const count = (now) => {
      globalThis.frames.push(now - last);
      last = now;
      requestAnimationFrame(count);
    };
    requestAnimationFrame(count);
    new PerformanceObserver((list) => globalThis.longTasks.push(...list.getEntries().map(({ duration }) => duration))).observe({ type: "longtask" });
  });
  const worst = async (what, noticesAtLeast) => {
    const from = sent;
    for (let step = 0; sent < from + noticesAtLeast; step += 1) {
      await page.evaluate(async (position) => {
        const scrolled = document.querySelector(".window") ?? document.scrollingElement;
        scrolled.scrollTop = position * 900;
        await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
      }, step % 40);
      if (step % 10 === 0) await page.press("j");
    }
    const tasks = await page.evaluate(() => globalThis.longTasks.splice(0));
    const longest = Math.max(0, ...tasks);
    assert(longest < TASK_MS_MAX, `${what}: a task took ${longest} ms`);
    const frames = await page.evaluate(() => globalThis.frames.splice(0));
    const late = frames.filter((ms) => ms > 100).length;
    assert(frames.length > 20 && late / frames.length < LATE_FRAMES_MAX, `${what}: ${late} of ${frames.length} frames came late`);
  };
  await worst("the list of dead letters", 200);

  await page.evaluate(() => { location.hash = "#/live"; });
  await page.waitFor("a full tail", () => document.querySelectorAll(".window-rows .row").length > 10);
  await worst("the live tail", 300);
  const elements = await page.evaluate(() => ({ rows: document.querySelectorAll(".window-rows .row").length, all: document.querySelectorAll("*").length }));
  assert(elements.rows < 100 && elements.all < 2000, `the live tail has ${elements.rows} rows and ${elements.all} elements`);
  for (const timer of timers) clearInterval(timer);
  close();
}
