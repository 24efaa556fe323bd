// What the overview says about what is wrong, and where each number leads.

import { refuse, serveFake } from "./fake-server.mjs";

const CALM = { pending_count: 4, pending_ready_count: 0, retrying_count: 0, failed_count: 0, cancelled_count: 0, delivered_count: 9, held_count: 0, held_count_capped: false, oldest_held_age_seconds: null, oldest_pending_age_seconds: 2 };
const WORKER = { worker_id: "worker-1", version: "1", started_at: new Date().toISOString(), heartbeat_age_seconds: 1, in_flight: 0 };
const destinationOf = (number) => ({
  destination_id: String(number), url: `https://receiver-${number}.example/`, host: "", endpoint_id: null, app_id: null, state: "circuit_open", disabled: null, since: new Date().toISOString(), reason: null, next_probe_at: null,
  paused_until: null, failing_since: null, in_flight: 0, window: null, failure_ratio: null, latency_ms: null, pending_count: 900 - number, pending_count_capped: false, oldest_pending_age_seconds: 60, last_error: "HTTP 503",
});

/** Each case: what the API says, and the texts that the page shows, or must not show. */
const CASES = [
  { name: "calm", headline: "Webhooks are flowing", not: ["The oldest pending event", "No worker"] },
  { name: "no worker", workers: [], headline: "Webhooks are not all getting through", texts: ["No worker is alive, so no event is sent. Start one with `posthaste serve` or `posthaste worker`."] },
  { name: "a lost worker", workers: [WORKER, { ...WORKER, worker_id: "worker-2", heartbeat_age_seconds: 90 }], headline: "Webhooks flow, with something to look at", texts: ["1 worker has sent no heartbeat for over a minute."] },
  { name: "many open circuits", trouble: { counts: [{ state: "circuit_open", count: 37, is_capped: false }], worst: Array.from({ length: 20 }, (_, number) => destinationOf(number)) }, texts: ["37 destinations keep failing, so Posthaste sends single probes only.", "37, the longest backlogs first"] },
  { name: "more than are counted", trouble: { counts: [{ state: "disabled", count: 1000, is_capped: true }], worst: [] }, texts: ["1,000+ endpoints are disabled and get no events."] },
  { name: "dead letters", overview: { failed_count: 5, cancelled_count: 2 }, texts: ["3 dead letters wait for a decision: requeue after the receiver is repaired, or cancel."] },
  { name: "late", overview: { pending_ready_count: 9, oldest_pending_age_seconds: 900 }, texts: ["The oldest pending event is 15 min old. If ready events pile up, add workers or concurrency."] },
  { name: "late beside a held event", overview: { pending_ready_count: 9, oldest_pending_age_seconds: 900, held_count: 1, oldest_held_age_seconds: 40 }, texts: ["The oldest pending event is 15 min old."] },
  { name: "only held events", overview: { pending_ready_count: 9, oldest_pending_age_seconds: 900, held_count: 9, oldest_held_age_seconds: 900 }, not: ["The oldest pending event", "are due"] },
  { name: "many due beside an old held event", overview: { pending_ready_count: 5009, oldest_pending_age_seconds: 900, held_count: 9, oldest_held_age_seconds: 900 }, texts: ["5,000 events are due, apart from those that are held."] },
  { name: "an unsafe setting", overview: { warnings: ["retries are faster than the contract allows"] }, texts: ["Unsafe setting. retries are faster than the contract allows"] },
];

export default async function ({ page, url, assert }) {
  let current = CASES[0];
  const answer = (path, _, request) => {
    if (current.needsKey && request.headers.authorization !== "Bearer an-operator-key") return refuse(401, "this request needs an API key");
    switch (new URL(path, url).pathname.split("/").pop()) {
      case "whoami": return { name: "local", role: null, permissions: ["read_all"] };
      case "overview": return { ...CALM, ...current.overview };
      case "workers": return { workers: current.workers ?? [WORKER] };
      case "trouble": return current.trouble ?? { counts: [], worst: [] };
      case "history": return { range: "1h", step_seconds: 60, points: [] };
      case "doctor": return { findings: [] };
      case "bulk": case "operations": return { operations: [], next_cursor: null };
      case "events": case "dlq": return { events: [], next_cursor: null, searched_until: null };
      case "destinations": return { destinations: [], next_cursor: null };
      default: return null;
    }
  };
  const { base, close } = await serveFake(url, answer);
  for (current of CASES) {
    await page.goto(`${base}?${encodeURIComponent(current.name)}#/`);
    await page.waitFor("the workers and the destinations", () => document.querySelector("[aria-label=Workers] .empty[hidden], [aria-label=Workers] code") !== null && document.querySelector(".opening") === null && !document.querySelector(".overview").innerText.includes("Loading"));
    for (const text of [current.headline, ...(current.texts ?? [])].filter(Boolean)) await page.waitForText(text);
    const shown = await page.evaluate(() => document.querySelector(".overview").innerText);
    for (const text of current.not ?? []) assert(!shown.includes(text), `${current.name}: the page says ${text}: ${shown}`);
  }
  current = CASES[3];
  await page.goto(`${base}?order#/`);
  await page.waitFor("eight destinations", () => document.querySelectorAll("[aria-label='Destinations in trouble'] .row").length === 8 && document.querySelector(".opening") === null);
  assert(await page.evaluate(() => document.querySelector("[aria-label='Destinations in trouble'] .row").innerText.includes("900 waiting")), "the longest backlog is not first");

  // Each count leads to its list.
  const leads = { Retrying: "#/events?status=retrying", Held: "#/destinations?state=held", "Dead letters": "#/dead-letters", Delivered: "#/events?status=delivered", Pending: "#/events?status=pending" };
  for (const [name, hash] of Object.entries(leads)) {
    await page.goto(`${base}#/`);
    await page.waitFor("the counts", () => document.querySelector(".tiles").getAttribute("aria-busy") === "false");
    const number = await page.evaluate((wanted) => [...document.querySelectorAll(".tile .name")].findIndex((element) => element.textContent === wanted) + 1, name);
    await page.click(`.tile:nth-child(${number})`);
    await page.waitFor(`the list of ${name}`, (wanted) => location.hash === wanted, hash);
  }
  // A command for the first event has the name of a variable for the key, and not the key.
  current = { overview: { pending_count: 0, delivered_count: 0, oldest_pending_age_seconds: null }, needsKey: true };
  await page.goto(`${base}?key#/`);
  await page.fill("#key-value", "an-operator-key");
  await page.click("#key-form button[type=submit]");
  await page.waitForText("Send the first event");
  await page.waitForText('-H "authorization: Bearer $POSTHASTE_API_KEY"');
  assert(await page.evaluate(() => !document.documentElement.outerHTML.includes("an-operator-key")), "the key is in the document");
  current = CASES[0];
  await page.goto(`${base}?held#/destinations?state=held`);
  await page.waitFor("the chosen state", () => document.querySelector("[data-value=held]").getAttribute("aria-pressed") === "true");
  close();
}
