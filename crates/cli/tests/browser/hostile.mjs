// Every text of the operators' API is hostile.

import { refuse } from "./fake-server.mjs";
import { createChecks, serveHostile } from "./hostile-setup.mjs";
import { PAYLOADS } from "./payloads.mjs";

const AT = "2026-01-31T12:00:00.000000Z";

const eventOf = (text, index) => ({
  event_id: index % 2 ? text : `event-${index}`, event_type: text, payment_request_id: text, webhook_id: text, session_id: text, destination_url: text, attempts: 2, max_attempts: text,
  last_error: text, failure_kind: text, stored_by: text, created_at: AT, updated_at: AT, delivery_status: "failed", next_attempt_at: text, last_attempted_at: text, delivered_at: text,
  explanation: text, history: [{ attempt: 1, started_at: text, duration_ms: 3, http_status: text, error_class: text, excerpt: text, worker_id: text, applied: false }],
  audit: [{ action: text, actor: text, at: text, reason: text }],
});
const destinationOf = (text, index) => ({
  destination_id: String(index), url: text, host: text, endpoint_id: text, app_id: text, state: ["paused", "circuit_open", "disabled", "failing", text][index % 5], since: text, reason: text,
  next_probe_at: text, paused_until: text, failing_since: text, in_flight: 1, window: text, ...(index % 2 ? { failure_ratio: text, latency_ms: text } : {}), pending_count: 1, pending_count_capped: false, oldest_pending_age_seconds: 4, last_error: text,
  disabled: { at: text, reason: text }, audit: [{ action: text, actor: text, at: text, paused_until: text, reason: text }],
});
const operationOf = (text, index) => ({
  operation_id: index % 2 ? text : `bulk_${index}`, action: text, state: ["running", text][index % 2], filter: { destination: text, app: text, event_type: text, failure_kind: text, error_class: text, since: text, until: text, [text]: text },
  matched_count: 9, examined_count: 3, done_count: 2, rate_per_second: 1, reason: text, actor: text, created_at: text, updated_at: text, stopped_by: text,
});
const recoveryOf = (text, index) => ({
  operation_id: index % 2 ? text : `qtask_${index}`, kind: text, state: ["running", text][index % 2], app_id: text, endpoint_id: text, since: text, until: text, rate_per_second: text, examined_count: text,
  done_count: text, actor: text, created_at: text, updated_at: text,
});
const contentOf = (text) => ({
  event_id: text, content_type: text, payload: text, payload_encoding: "utf8", payload_bytes: 3, truncated: false, headers: Object.fromEntries(PAYLOADS.map((each) => [each, each])), sensitive_headers: PAYLOADS, headers_error: text,
});
const noticeOf = (text) => ({ topic: text, type: text, webhook_delivery_id: text, event_type: text, destination_url: text, webhook_id: text, session_id: text, payment_request_id: text, attempts: 2, failure_kind: text, at: text, reason: text });

/** Answers as the API would if every text were `PAYLOADS[index]`, and lists with all of them. */
function answer(path, current, method) {
  const text = PAYLOADS[current];
  if (path.startsWith("/api/v1/")) return answerOfRegistry(path, text);
  const [name, id, action] = path.replace(/^.*\/webhook-outbox\//, "").split("?")[0].split("/").map(decodeURIComponent);
  const list = (field, create) => (id === undefined ? { [field]: PAYLOADS.map(create), next_cursor: null } : create(text, current));
  if (action === "content") return contentOf(text);
  if (action === "requeue") return { event_id: text, delivery_status: text, held: { reason: text } };
  if (action === "probe") return { probed: false, reason: text };
  if (name === "bulk" && method === "POST") return refuse(400, text);
  switch (name) {
    case "whoami": return { name: text, role: text, permissions: ["enqueue", "read_event", "read_all", "operate"] };
    case "overview": return { pending_count: 1, pending_ready_count: 1, retrying_count: 1, failed_count: 2, cancelled_count: 0, delivered_count: 3, held_count: 1, oldest_pending_age_seconds: 5, warnings: PAYLOADS };
    case "doctor": return { findings: PAYLOADS.map((finding) => ({ check: finding, verdict: "broken", finding })) };
    case "workers": return { workers: PAYLOADS.map((worker) => ({ worker_id: worker, version: worker, started_at: worker, heartbeat_at: worker, heartbeat_age_seconds: 1, in_flight: 1 })) };
    case "history": return { range: text, step_seconds: 60, points: [{ at: text, delivered_count: text, retried_count: text, failed_count: text, latency_p50_ms: text, latency_p95_ms: text, latency_p99_ms: text, pending_count: text, dead_letter_count: text }] };
    case "events": case "dlq": return list("events", eventOf);
    case "trouble": return { counts: PAYLOADS.map((state) => ({ state, count: 1, is_capped: true })), worst: PAYLOADS.map(destinationOf) };
    case "destinations": return list("destinations", destinationOf);
    case "operations": return list("operations", recoveryOf);
    case "bulk": return list("operations", operationOf);
    default: return null;
  }
}

/** Answers with applications and their endpoints. */
function answerOfRegistry(path, text) {
  const list = (create) => ({ data: PAYLOADS.map(create), iterator: null, prevIterator: null, done: true });
  const [, , , , app, kind] = path.split("?")[0].split("/");
  if (app === undefined) return list((name) => ({ id: name, uid: name, name }));
  if (kind === undefined) return { id: text, uid: text, name: text };
  if (path.endsWith("/secret/rotate")) return { key: text };
  return list((each, index) => ({ id: each, uid: each, url: each, description: each, disabled: index % 2 === 0, disabledReason: each, disabledAt: each, eventTypes: [each] }));
}

export default async function ({ page, url, assert }) {
  assert(new Set(PAYLOADS).size >= 60, `only ${PAYLOADS.length} texts`);
  const state = { current: 0 };
  const notices = PAYLOADS.map((text) => `data: ${JSON.stringify(noticeOf(text))}\n\n`).join("");
  const { base, close } = await serveHostile(url, state, answer, notices);
  const { check, open, show } = createChecks(page, base, assert);
  /** Looks at the content of an event, and opens the dialogs and toasts whose texts come from the API. */
  const actOn = async (text) => {
    const id = encodeURIComponent(text);
    const confirmed = async (selector, where) => {
      await page.click(selector);
      await page.waitFor(`the subject of ${where}`, (wanted) => document.querySelector("#confirm[open] .subject")?.textContent.includes(wanted), text);
      await check(`the confirmation of ${where}`);
      await page.click("#confirm-submit");
      await page.waitForToast(text);
      await check(`the toast of ${where}`);
    };
    await show(`#/events/${id}`, text);
    await page.click("[data-action=content]");
    await page.waitFor("the content", (wanted) => document.querySelector(".payload")?.textContent === wanted && document.querySelectorAll(".content-body dt").length > 100, text);
    await check("the content of an event");
    await confirmed("[data-action=requeue]", "a requeue");
    // The second of five destinations has an open circuit.
    const number = state.current;
    state.current = 5 * Math.floor(number / 5) + 1;
    await show(`#/destinations/${state.current}`, PAYLOADS[state.current]);
    await page.click("[data-action=probe]");
    await check("the confirmation of a probe");
    await page.click("#confirm-submit");
    await page.waitForToast(PAYLOADS[state.current]);
    await page.click("[data-action=rotate]");
    await page.click("#confirm-submit");
    await page.waitFor("the new secret", (wanted) => document.querySelector("#new-secret[open] .secret")?.textContent === wanted, PAYLOADS[state.current]);
    await check("the dialog of a new secret");
    await page.press("Escape");
    state.current = number;
    await open("#/dead-letters");
    await page.waitFor("the error of a count", (wanted) => document.querySelector(".bulk-bar")?.textContent.includes(wanted), text);
    await check("the error of a count");
  };
  await page.goto(base);
  await page.waitFor("the findings", (text) => document.querySelector(".advice")?.textContent.includes(text), PAYLOADS[0]);
  await check("overview");
  // The newest notice is the last one.
  await show("#/live", PAYLOADS.at(-5));
  for (const view of ["events", "dead-letters", "destinations", "endpoints", "bulk"]) await show(`#/${view}`, PAYLOADS[8]);
  for (state.current = 0; state.current < PAYLOADS.length; state.current += 1) {
    const text = PAYLOADS[state.current];
    const id = encodeURIComponent(text);
    await show(`#/events/${id}`, text);
    await show(`#/destinations/${state.current}`, text);
    await show(`#/bulk/${id}`, text);
    await page.waitFor("no number that is none", () => !document.querySelector("#view").textContent.includes("NaN"));
    if (state.current % 8 === 0) await actOn(text);
    await open(`#/endpoints?app=${id}`);
    await check("an application of the URL");
    await open(`#/dead-letters?destination=${id}&event_type=${id}&error_class=${id}&failure_kind=${id}&since=${id}`);
    await check("filters of the URL");
  }
  // Names that every object has are neither views nor ranges.
  for (const name of ["constructor", "__proto__", "toString"]) {
    await open(`#/${name}`);
    await page.waitFor(`the overview instead of ${name}`, () => location.hash === "#/" && document.querySelector(".overview") !== null);
    await open(`#/?range=${name}`);
    await page.waitFor("the usual range", () => document.querySelector(".segments [aria-pressed=true]")?.textContent === "1h");
  }
  await open("#/");
  await check("overview again");
  await page.screenshot("hostile-1400");
  close();
}
