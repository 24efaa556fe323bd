// Every text of the API is hostile. The page is served without its content security policy, so that only its own care protects it.

import { createServer } from "node:http";
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
  next_probe_at: text, paused_until: text, failing_since: text, in_flight: 1, window: text, pending_count: 1, pending_count_capped: false, oldest_pending_age_seconds: 4, last_error: text,
  disabled: { at: text, reason: text }, audit: [{ action: text, actor: text, at: text, paused_until: text, reason: text }],
});
const operationOf = (text, index) => ({
  operation_id: index % 2 ? text : `bulk_${index}`, action: text, state: ["running", text][index % 2], filter: { destination: text, app: text, event_type: text, failure_kind: text, error_class: text, since: text, until: text, [text]: text },
  matched_count: 9, examined_count: 3, done_count: 2, rate_per_second: 1, reason: text, actor: text, created_at: text, updated_at: text, stopped_by: text,
});
const noticeOf = (text) => ({ topic: text, type: text, webhook_delivery_id: text, webhook_id: text, session_id: text, payment_request_id: text, attempts: 2, failure_kind: text, at: text, reason: text });

/** Answers as the API would if every text were `PAYLOADS[index]`, and lists with all of them. */
function answer(path, current) {
  const text = PAYLOADS[current];
  const [name, id] = path.replace(/^.*\/webhook-outbox\//, "").split("?")[0].split("/").map(decodeURIComponent);
  const list = (field, create) => (id === undefined ? { [field]: PAYLOADS.map(create), next_cursor: null } : create(text, current));
  switch (name) {
    case "whoami": return { name: text, role: text, permissions: ["enqueue", "read_event", "read_all", "operate"] };
    case "overview": return { pending_count: 1, pending_ready_count: 1, retrying_count: 1, failed_count: 2, cancelled_count: 0, delivered_count: 3, held_count: 1, oldest_pending_age_seconds: 5, warnings: PAYLOADS };
    case "doctor": return { findings: PAYLOADS.map((finding) => ({ check: finding, verdict: "broken", finding })) };
    case "workers": return { workers: PAYLOADS.map((worker) => ({ worker_id: worker, version: worker, started_at: worker, heartbeat_at: worker, heartbeat_age_seconds: 1, in_flight: 1 })) };
    case "history": return { range: text, step_seconds: 60, points: [{ at: text, delivered_count: text, retried_count: text, failed_count: text, latency_p50_ms: text, latency_p95_ms: text, latency_p99_ms: text, pending_count: text, dead_letter_count: text }] };
    case "events": case "dlq": return list("events", eventOf);
    case "destinations": return list("destinations", destinationOf);
    case "bulk": return list("operations", operationOf);
    default: return null;
  }
}

export default async function ({ page, url, assert }) {
  assert(new Set(PAYLOADS).size >= 60, `only ${PAYLOADS.length} texts`);
  let current = 0;
  const server = createServer(async (request, response) => {
    if (!request.url.startsWith("/v1/")) {
      const asset = await fetch(new URL(request.url, url));
      response.writeHead(asset.status, { "content-type": asset.headers.get("content-type") });
      response.end(Buffer.from(await asset.arrayBuffer()));
    } else if (request.url.includes("/stream")) {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write(PAYLOADS.map((text) => `data: ${JSON.stringify(noticeOf(text))}\n\n`).join(""));
    } else {
      const body = answer(request.url, current);
      response.writeHead(body ? 200 : 404, { "content-type": "application/json" });
      response.end(JSON.stringify(body ?? { error: { code: PAYLOADS[current], message: PAYLOADS[current] } }));
    }
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  const base = `http://127.0.0.1:${server.address().port}/`;

  const check = async (where) => {
    const found = await page.evaluate(() => globalThis.hit !== undefined
      || document.querySelector("#view :is(script, style, img, iframe, object, embed, video, audio, base, meta, link, template, math, marquee, custom-element, [onerror], [onload], [onfocus], [style*='javascript'])")?.outerHTML
      || [...document.querySelectorAll("a")].find((link) => link.protocol === "javascript:" || link.protocol === "data:")?.outerHTML
      || document.querySelector("#view :is(svg:not(.sparkline))")?.outerHTML || null);
    assert(!found, `${where}: a text was executed or became markup: ${found}`);
  };
  await page.goto(base);
  // Chromium limits how often a script may change the URL, but not how often its user may.
  const open = (hash) => page.call("Page.navigate", { url: base + hash });
  const show = async (hash, wanted) => {
    await open(hash);
    await page.waitFor(`${hash} with ${JSON.stringify(wanted)}`, (text) => document.querySelector("#view").textContent.includes(text), wanted);
    await check(hash);
  };
  await page.waitFor("the findings", (text) => document.querySelector(".advice")?.textContent.includes(text), PAYLOADS[0]);
  await check("overview");
  // The newest notice is the last one.
  await show("#/live", PAYLOADS.at(-5));
  for (const view of ["events", "dead-letters", "destinations", "bulk"]) await show(`#/${view}`, PAYLOADS[8]);
  for (current = 0; current < PAYLOADS.length; current += 1) {
    const text = PAYLOADS[current];
    const id = encodeURIComponent(text);
    await show(`#/events/${id}`, text);
    await show(`#/destinations/${current}`, text);
    await show(`#/bulk/${id}`, text);
    await open(`#/dead-letters?destination=${id}&event_type=${id}&error_class=${id}&failure_kind=${id}&since=${id}`);
    await check("filters of the URL");
  }
  await open("#/");
  await check("overview again");
  await page.screenshot("hostile-1400");
  server.closeAllConnections();
  server.close();
}
