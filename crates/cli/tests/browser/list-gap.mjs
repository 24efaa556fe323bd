// Lists on a busy server: rows that were loaded stay when more newer ones arrive than a poll loads, and a search ends with its view.

import { CALM, serveFake } from "./fake-server.mjs";

export default async function ({ page, url, assert, until }) {
  /** When each event was created. */
  const times = [];
  /** Creates a thousand events within a millisecond. */
  const create = () => {
    const now = new Date().toISOString().replace("Z", "");
    for (let number = 0; number < 1000; number += 1) times.push(`${now}${String(number).padStart(3, "0")}Z`);
  };
  const asked = [];
  let isEndless = false;
  const eventOf = (number) => ({
    event_id: `order-${number}-created`, event_type: "order.created", destination_id: "1", destination_url: "https://a.example/", webhook_id: null, delivery_status: "delivered", failure_kind: null, attempts: 1, max_attempts: 3,
    last_error: null, next_attempt_at: null, created_at: times[number], updated_at: times[number],
  });
  const answer = async (path) => {
    const { pathname, searchParams } = new URL(path, url);
    switch (pathname.split("/").pop()) {
      case "overview": return CALM;
      case "whoami": return { name: "local", role: null, permissions: ["read_all"] };
      case "events": {
        const cursor = searchParams.get("cursor");
        asked.push({ cursor, type: searchParams.get("event_type") });
        if (isEndless && searchParams.get("event_type") === "rare") {
          await new Promise((later) => setTimeout(later, 100));
          const reached = Number(cursor ?? times.length);
          return { events: cursor === null ? [eventOf(1)] : [], next_cursor: String(reached - 1), searched_until: times[reached - 1] };
        }
        const first = Number(cursor ?? times.length);
        const last = Math.max(0, first - Math.min(Number(searchParams.get("limit")), 200));
        return { events: Array.from({ length: first - last }, (_, index) => eventOf(first - 1 - index)), next_cursor: last > 0 ? String(last) : null, searched_until: last > 0 ? times[last] : null };
      }
      default: return null;
    }
  };
  const { base, close } = await serveFake(url, answer);
  const rows = (wanted) => page.waitFor(`${wanted} rows`, (number) => document.querySelectorAll("#view .list .rows .row").length === number, wanted);
  const first = () => page.evaluate(() => document.querySelector("#view .rows .id").title);

  create();
  await page.goto(`${base}#/events`);
  await rows(50);
  create();
  await page.waitFor("the newest rows, as no others were loaded", (id) => document.querySelector("#view .rows .id").title === id, `order-${times.length - 1}-created`);
  for (const wanted of [100, 200, 400]) {
    await page.click(".more");
    await rows(wanted);
  }
  await page.evaluate(() => window.scrollTo(0, 0));
  await page.point(5, 5);
  const top = await first();
  create();
  await page.waitFor("the offer of newer rows", () => document.querySelector(".newer")?.checkVisibility());
  await rows(400);
  assert(await first() === top, "a poll replaced the loaded rows");
  await page.click(".newer button");
  await page.waitFor("the newest rows", (id) => document.querySelector("#view .rows .id").title === id, `order-${times.length - 1}-created`);
  await page.waitFor("no offer", () => document.querySelector(".newer").hidden);
  await rows(400);

  // A refresh of a search that goes far back ends when the user leaves, or asks for something else.
  isEndless = true;
  await page.fill("form [name=event_type]", "rare");
  await page.click("form button[type=submit]");
  const searches = () => asked.filter(({ type }) => type === "rare").length;
  await page.waitFor("what the search found", () => document.querySelectorAll("#view .list .rows .row").length === 1 || document.querySelector("#view .list").getAttribute("aria-busy") === "true");
  await rows(1);
  await page.press("r");
  const before = searches();
  await until("a search that goes on", () => searches() > before + 5);
  await page.show("#/send");
  await page.settle();
  const atEnd = searches();
  await page.evaluate(() => new Promise((passed) => setTimeout(passed, 1500)));
  assert(searches() <= atEnd + 1, `a search goes on in another view: ${searches() - atEnd} more pages`);
  close();
}
