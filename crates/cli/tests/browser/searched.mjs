// A search that finds little says how far back it has come, and goes on when asked.

import { CALM, serveFake } from "./fake-server.mjs";

const DAY_MS = 86400000;
const PAGES = 8;
const EVENT = { event_id: "order-1", event_type: "rare", destination_url: "https://a.example/", delivery_status: "delivered", attempts: 1, max_attempts: 3, created_at: new Date(Date.now() - 8 * DAY_MS).toISOString(), updated_at: new Date().toISOString() };

export default async function ({ page, url, assert, until }) {
  const asked = [];
  const answer = (path) => {
    const { pathname, searchParams } = new URL(path, url);
    if (pathname.endsWith("/whoami")) return { name: "local", role: null, permissions: ["read_all"] };
    if (pathname.endsWith("/overview")) return CALM;
    if (!pathname.endsWith("/events")) return null;
    asked.push({ type: searchParams.get("event_type"), cursor: searchParams.get("cursor") });
    const number = Number(searchParams.get("cursor") ?? 0);
    if (number === PAGES - 1) return { events: [EVENT], next_cursor: null, searched_until: null };
    return { events: [], next_cursor: String(number + 1), searched_until: new Date(Date.now() - (number + 1) * DAY_MS).toISOString() };
  };
  const { base, close } = await serveFake(url, answer);
  await page.goto(`${base}#/events?event_type=rare`);
  await page.waitForText("searched back to 3 d ago");
  await page.waitForText("Nothing found so far.");
  assert(asked.length >= 3 && asked.every(({ type }) => type === "rare"), `the page asked ${JSON.stringify(asked)}`);
  await page.click(".more");
  await page.waitForText("searched back to 6 d ago");
  // Polls ask for the newest events again, and the progress of the search stays.
  const polls = () => asked.filter(({ cursor }) => cursor === null).length;
  const polled = async () => {
    const before = polls();
    await until("two polls of the search", () => polls() >= before + 2);
  };
  await polled();
  await page.waitForText("searched back to 6 d ago");
  await page.click(".more");
  await page.waitForText("order-1");
  await polled();
  await page.waitForText("order-1");
  assert(await page.evaluate(() => !document.querySelector("#view").innerText.includes("searched back")), "a finished search claims to go on");
  close();
}
