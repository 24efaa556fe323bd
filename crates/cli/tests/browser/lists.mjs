// Lists that are long, filtered or read while they change: what is shown stays, and follows the conditions that were applied.

import { CALM, serveFake } from "./fake-server.mjs";

const AT = Date.now();
const EVENTS = 1500;
const DESTINATIONS = 240;

const eventOf = (number) => ({
  event_id: `order-${number}-created`, event_type: number % 2 ? "order.created" : "order.paid", destination_url: "https://a.example/", delivery_status: "failed", failure_kind: "exhausted", attempts: 3, max_attempts: 3,
  last_error: "HTTP 503", next_attempt_at: null, created_at: new Date(AT - number * 1000).toISOString(), updated_at: new Date(AT - number * 1000).toISOString(),
});
const destinationOf = (number, state) => ({
  destination_id: String(number), url: `https://receiver-${number}.example/`, host: "receiver.example", endpoint_id: null, app_id: null, state, disabled: null, since: state === "ok" ? null : new Date(AT).toISOString(), reason: null,
  next_probe_at: null, paused_until: null, failing_since: null, in_flight: 0, window: null, failure_ratio: null, latency_ms: null, pending_count: 1, pending_count_capped: false, oldest_pending_age_seconds: 4, last_error: null,
});

export default async function ({ page, url, assert, until }) {
  let events = Array.from({ length: EVENTS }, (_, number) => eventOf(number));
  const states = Array.from({ length: DESTINATIONS }, (_, number) => (number < 210 ? "circuit_open" : "ok"));
  /** The requests for lists and counts, the latest last. */
  const asked = [];
  const answer = (path, body) => {
    const { pathname, searchParams } = new URL(path, url);
    const cut = (all) => {
      const first = Number(searchParams.get("cursor") ?? 0);
      const items = all.slice(first, first + Number(searchParams.get("limit")));
      const next = first + items.length < all.length ? String(first + items.length) : null;
      return { items, next };
    };
    switch (pathname.split("/").pop()) {
      case "overview": return CALM;
      case "whoami": return { name: "local", role: null, permissions: ["read_all", "operate"] };
      case "dlq": {
        asked.push({ type: searchParams.get("event_type"), cursor: searchParams.get("cursor") });
        const type = searchParams.get("event_type");
        const { items, next } = cut(events.filter((event) => type === null || event.event_type === type));
        return { events: items, next_cursor: next, searched_until: next && items.at(-1).updated_at };
      }
      case "bulk": {
        if (body === null) return { operations: [], next_cursor: null };
        asked.push({ count: body.filter.event_type ?? null });
        return { matched_count: events.length, is_exact: true };
      }
      case "destinations": {
        const numbers = states.flatMap((state, number) => (state === searchParams.get("state") ? [number] : []));
        const { items, next } = cut(numbers);
        return { destinations: items.map((number) => destinationOf(number, states[number])), next_cursor: next };
      }
      default: return null;
    }
  };
  const { base, close } = await serveFake(url, answer);
  const rows = (count) => page.waitFor(`${count} rows`, (wanted) => document.querySelectorAll("#view .list .rows .row").length === wanted, count);
  /** Waits until the page has asked for the first page of the list again, as a poll does. */
  const polled = async () => {
    const before = asked.length;
    await until("a poll of the list", () => asked.slice(before).some(({ cursor }) => cursor === null));
    await page.waitFor("the end of the poll", () => document.querySelector(".list").getAttribute("aria-busy") === "false");
  };

  // Conditions that were typed and not applied: neither polls, nor more rows, nor the count use them.
  await page.goto(`${base}#/dead-letters`);
  await rows(50);
  await page.fill("form [name=event_type]", "order.paid");
  await polled();
  await page.click(".more");
  await rows(100);
  await page.click("[data-bulk=requeue]");
  await page.waitForText(`Requeue 1,500 dead letters?`);
  assert(asked.every(({ type, count }) => !type && !count), `conditions that were not applied are in use: ${JSON.stringify(asked)}`);
  await page.press("Escape");
  await page.click("form button[type=submit]");
  await page.waitFor("only paid orders", () => !document.querySelector("#view .rows").textContent.includes("order.created"));
  assert(asked.at(-1).type === "order.paid" || asked.at(-1).count === "order.paid", "an applied condition is not in use");

  // A long list keeps its rows and its place, when it is refreshed, and when rows come and go.
  await page.click("form .plain");
  await rows(50);
  await page.waitFor("a long list", () => {
    const more = document.querySelector("#view .more");
    if (more.checkVisibility() && !more.disabled) more.click();
    return document.querySelectorAll("#view .list .rows .row").length >= 1300;
  });
  await page.evaluate(() => document.querySelectorAll("#view .rows .row")[1000].scrollIntoView({ block: "center" }));
  /** Returns where a row is, once two frames have shown it there: rows that come into sight are laid out only then. */
  const placeOf = async (id) => {
    const { top } = await page.waitFor(`the row ${id} at rest`, async (wanted) => {
      const place = () => document.querySelector(`.id[title='${wanted}']`).getBoundingClientRect().top;
      const before = place();
      await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
      return place() === before ? { top: before } : null;
    }, id);
    return top;
  };
  const place = await placeOf("order-1000-created");
  const long = await page.evaluate(() => document.querySelectorAll("#view .rows .row").length);
  events = events.filter(({ event_id: id }) => id !== "order-1100-created");
  await page.press("r");
  await page.waitFor("a list without the removed row", () => document.querySelector(".id[title='order-1100-created']") === null);
  assert(await page.evaluate(() => document.querySelectorAll("#view .rows .row").length) >= long - 1, "the list became shorter");
  assert(Math.abs(await placeOf("order-1000-created") - place) < 3, "the row moved");
  await page.evaluate(() => window.scrollTo(0, 0));
  events = [{ ...eventOf(0), event_id: "order-new", updated_at: new Date().toISOString(), created_at: new Date().toISOString() }, ...events];
  await page.point(5, 5);
  await page.waitForText("order-new");
  assert(await page.evaluate(() => document.querySelectorAll("#view .rows .row").length) >= long - 1, "a poll made the list shorter");

  // More destinations in trouble than a page has: they are all there, and follow their states.
  await page.show("#/destinations");
  await rows(50);
  await page.waitFor("every destination", (wanted) => {
    const more = document.querySelector("#view .more");
    if (more.checkVisibility() && !more.disabled) more.click();
    return document.querySelectorAll("#view .list .rows .row").length === wanted;
  }, DESTINATIONS);
  await page.evaluate(() => window.scrollTo(0, 0));
  states[3] = "failing";
  await page.waitFor("the new state of a destination", () => [...document.querySelectorAll("#view .row")].some((row) => row.textContent.includes("receiver-3.example") && row.querySelector(".pill").textContent === "failing"));
  close();
}
