// Ten thousand rows and a hundred notices a second: few elements, no task that blocks the page, and few frames that come late.

import { serveFake } from "./fake-server.mjs";

const ROWS = 10000;
const PAGE = 200;
const TICK_MS = 50;
const NOTICES_PER_TICK = 5;
// The page must answer a key within this time, on a machine that does the work of `timeWork` in `WORK_MS`.
const TASK_MS_MAX = 250;
// A frame that takes longer than this, on the same machine, is late.
const FRAME_MS_MAX = 100;
const WORK_MS = 35;
// On a slower machine the limits are longer in proportion, up to this many times.
const SLOWNESS_MAX = 5;
// Part of the frames that may be late.
const LATE_FRAMES_MAX = 0.1;
// Another process may take the processor from the page for a moment. A page that is slow itself is slow in every round.
const ROUNDS_MAX = 5;
// A round lasts for five seconds at least, so that a poll of the page, every four seconds, is a part of it.
const NOTICES_PER_ROUND = 500;
// A round that takes longer has no notices any more.
const ROUND_MS_MAX = 60000;
// The rows are awaited in steps of this many.
const ROWS_STEP = 2000;
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

/** Runs in the page: returns how long a fixed amount of work takes. Of some runs the shortest counts, as another process may take the processor meanwhile. */
function timeWork() {
  const timeRun = () => {
    const startedAt = performance.now();
    for (let round = 0; round < 50; round += 1) {
      const rows = JSON.parse(JSON.stringify(Array.from({ length: 2000 }, (_, number) => ({ id: `order-${(number * 7919) % 2000}`, number }))));
      rows.sort((a, b) => a.id.localeCompare(b.id));
    }
    return performance.now() - startedAt;
  };
  return Math.min(...Array.from({ length: 8 }, timeRun));
}

export default async function ({ page, url, assert }) {
  let sent = 0;
  const timers = [];
  const stream = (response) => timers.push(setInterval(() => {
    if (response.destroyed) return;
    for (let index = 0; index < NOTICES_PER_TICK; index += 1, sent += 1) {
      const notice = { type: "WebhookDeliveredEvent", webhook_delivery_id: `order-${sent}-sent`, attempts: 1, at: new Date().toISOString() };
      response.write(`id: 1:${sent}\ndata: ${JSON.stringify(notice)}\n\n`);
    }
  }, TICK_MS));
  const { base, close } = await serveFake(url, answer, { stream });

  await page.goto(`${base}#/dead-letters`);
  await page.waitFor("the first rows", () => document.querySelectorAll("#view .row").length >= 50);
  await page.waitFor("live updates", () => document.querySelector("#connection").dataset.state === "live");
  const slowness = Math.min(Math.max(await page.evaluate(timeWork) / WORK_MS, 1), SLOWNESS_MAX);
  let found = 0;
  for (let wanted = ROWS_STEP; wanted <= ROWS; wanted += ROWS_STEP) {
    found = await page.waitFor(`${wanted} rows`, (rows) => {
      const more = document.querySelector("#view .more");
      if (more.checkVisibility() && !more.disabled) more.click();
      const count = document.querySelectorAll("#view .list .rows .row").length;
      return count >= rows ? count : null;
    }, wanted);
  }
  assert(found === ROWS, `${found} rows`);

  // From now on, every long task counts: scrolling, moving by keys, and a hundred notices a second.
  await page.evaluate(() => {
    let tasks = [];
    let frames = [];
    let last = performance.now();
    const count = (now) => {
      frames.push(now - last);
      last = now;
      requestAnimationFrame(count);
    };
    requestAnimationFrame(count);
    const add = (entries) => tasks.push(...entries.map(({ duration }) => duration));
    const observer = new PerformanceObserver((list) => add(list.getEntries()));
    observer.observe({ type: "longtask" });
    /** Returns the long tasks and the frames since the last call. The frame that is awaited counts as if it came now. */
    globalThis.takeMeasurements = () => {
      add(observer.takeRecords());
      const taken = { tasks, frames: [...frames, performance.now() - last] };
      tasks = [];
      frames = [];
      return taken;
    };
  });
  /** Uses the page for a round. Returns what was too slow, or null. */
  const measure = async () => {
    await page.evaluate(() => { globalThis.takeMeasurements(); });
    const from = sent;
    const deadline = Date.now() + ROUND_MS_MAX;
    for (let step = 0; sent < from + NOTICES_PER_ROUND; step += 1) {
      assert(Date.now() < deadline, `${sent - from} notices were sent within ${ROUND_MS_MAX / 1000} s: the stream has ended`);
      await page.evaluate(async (position) => {
        const scrolled = document.querySelector(".window") ?? document.scrollingElement;
        scrolled.scrollTop = position * 900;
        await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
      }, step % 40);
      if (step % 10 === 0) await page.press("j");
    }
    const { tasks, frames } = await page.evaluate(() => globalThis.takeMeasurements());
    const longest = Math.max(0, ...tasks);
    if (longest >= TASK_MS_MAX * slowness) return `a task took ${longest} ms`;
    const late = frames.filter((ms) => ms > FRAME_MS_MAX * slowness).length;
    return late / frames.length < LATE_FRAMES_MAX ? null : `${late} of ${frames.length} frames came late`;
  };
  /** Checks that the page is fast in one of some rounds. */
  const checkPace = async (what) => {
    const complaints = [];
    while (complaints.length < ROUNDS_MAX) {
      const complaint = await measure();
      if (complaint === null) return;
      complaints.push(complaint);
    }
    assert(false, `${what} in every round, on a machine that is ${slowness.toFixed(1)} times as slow: ${complaints.join(", ")}`);
  };
  await checkPace("the list of dead letters");

  await page.show("#/live");
  await page.waitFor("a full tail", () => document.querySelectorAll(".window-rows .row").length > 10);
  await checkPace("the live tail");
  const elements = await page.evaluate(() => ({ rows: document.querySelectorAll(".window-rows .row").length, all: document.querySelectorAll("*").length }));
  assert(elements.rows < 100 && elements.all < 2000, `the live tail has ${elements.rows} rows and ${elements.all} elements`);
  for (const timer of timers) clearInterval(timer);
  close();
}
