// The focus and the place in a list: after Enter the keyboard goes on in the new view, and Back returns to the row.

import { CALM, serveFake } from "./fake-server.mjs";

const AT = Date.now();
const EVENTS = 300;

const eventOf = (number) => ({
  event_id: `order-${number}-created`, event_type: "order.created", destination_id: "1", destination_url: "https://a.example/", webhook_id: null, delivery_status: "delivered", failure_kind: null, attempts: 1, max_attempts: 3,
  last_error: null, next_attempt_at: null, created_at: new Date(AT - number * 1000).toISOString(), updated_at: new Date(AT - number * 1000).toISOString(),
});

export default async function ({ page, url, assert }) {
  const answer = (path) => {
    const { pathname, searchParams } = new URL(path, url);
    const name = decodeURIComponent(pathname.split("/").pop());
    if (name === "whoami") return { name: "local", role: null, permissions: ["read_all"] };
    if (name === "overview") return CALM;
    if (name.startsWith("order-")) return { ...eventOf(Number(name.split("-")[1])), explanation: "It was delivered.", history: [], audit: [] };
    if (name !== "events") return null;
    const first = Number(searchParams.get("cursor") ?? 0);
    const last = Math.min(first + Number(searchParams.get("limit")), EVENTS);
    return { events: Array.from({ length: last - first }, (_, index) => eventOf(first + index)), next_cursor: last < EVENTS ? String(last) : null, searched_until: last < EVENTS ? eventOf(last - 1).created_at : null };
  };
  const { base, close } = await serveFake(url, answer);
  const rows = (count) => page.waitFor(`${count} rows`, (wanted) => document.querySelectorAll("#view .list .rows .row").length === wanted, count);

  await page.goto(`${base}#/events`);
  await rows(50);
  await page.click(".more");
  await rows(100);
  await page.evaluate(() => {
    const link = document.querySelector(".id[title='order-80-created']");
    link.scrollIntoView({ block: "center" });
    link.focus({ preventScroll: true });
  });
  // Rows that come into sight are laid out only then.
  await page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))));
  await page.press("Enter");
  await page.waitForText("It was delivered.");
  assert(await page.evaluate(() => document.activeElement.id === "view"), "the focus is lost in the new view");
  await page.waitFor("the announcement of the view", () => document.querySelector("#announcement").textContent === "order-80-created");

  await page.evaluate(() => history.back());
  await rows(100);
  await page.waitFor("the focus on the row", () => document.activeElement.title === "order-80-created");
  await page.waitFor("the row in sight", () => {
    const { top, bottom } = document.activeElement.getBoundingClientRect();
    return top >= 0 && bottom <= innerHeight;
  });

  // The filter that was applied belongs to its entry, and a link opens a new view at its top.
  await page.fill("form [name=event_type]", "order.created");
  await page.click("form button[type=submit]");
  await rows(50);
  await page.show("#/send");
  await page.evaluate(() => history.back());
  await page.waitFor("the filtered list", () => location.hash === "#/events?event_type=order.created" && document.querySelector("form [name=event_type]")?.value === "order.created");
  await page.show("#/events");
  await page.waitFor("a new list", () => document.querySelector("form [name=event_type]").value === "" && window.scrollY === 0);

  // The link of the navigation keeps the focus.
  await page.evaluate(() => {
    const link = document.querySelector("#nav [data-view=live]");
    link.focus();
    link.click();
  });
  await page.waitForText("Waiting for the next delivery.");
  assert(await page.evaluate(() => document.activeElement.dataset.view === "live"), "the focus left the navigation");
  close();
}
