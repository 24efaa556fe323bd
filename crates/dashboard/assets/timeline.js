// The life of an event: its enqueue, attempts, operator actions, and what comes next.

import { el } from "./dom.js";
import { UNKNOWN, countdown, formatCount, formatMs, lookUp, relativeTime } from "./format.js";

export function createTimeline() {
  const root = el("ol", { class: "timeline" });
  return {
    root,
    /** @param {Api.EventDetail} event */
    show(event) {
      const entries = [
        { at: event.created_at, node: created(event) },
        ...(event.history ?? []).map((attempt) => ({ at: attempt.started_at, node: attempted(attempt) })),
        ...(event.audit ?? []).map((action) => ({ at: action.at, node: acted(action) })),
      ];
      entries.sort((a, b) => Date.parse(a.at) - Date.parse(b.at));
      root.replaceChildren(...entries.map((entry) => entry.node), ...ending(event));
    },
  };
}

/** @param {string} color @param {any} title @param {HTMLElement | null} at @param {...any} details */
function item(color, title, at, ...details) {
  return el("li", { class: color }, el("p", { class: "what" }, el("span", {}, title), at ? el("span", { class: "muted" }, at) : null), details);
}

/** @param {Api.EventDetail} event */
function created(event) {
  const by = event.stored_by ? el("p", { class: "muted" }, `Stored by ${event.stored_by}`) : null;
  return item("", el("b", {}, "Enqueued"), relativeTime(event.created_at), by);
}

/** @param {Api.Attempt} attempt */
function attempted(attempt) {
  const status = attempt.http_status;
  const isLate = attempt.applied === false;
  const isDelivered = status !== null && status >= 200 && status < 300 && !isLate;
  const result = status === null ? attempt.error_class ?? UNKNOWN : `HTTP ${status}`;
  const title = [el("b", {}, `Attempt ${formatCount(attempt.attempt)}`), " ", el("span", { class: isDelivered ? "ok-text" : "bad-text" }, result)];
  return item(isDelivered ? "ok" : isLate ? "" : "bad", title, relativeTime(attempt.started_at),
    el("p", { class: "muted" }, `${formatMs(attempt.duration_ms)}, by `, el("span", { class: "mono" }, attempt.worker_id ?? UNKNOWN),
      isLate ? ". Not applied: the result arrived after the worker had lost the event." : ""),
    attempt.excerpt ? el("pre", { class: "excerpt-block" }, attempt.excerpt) : null);
}

/** @type {Record<string, string>} */
const DONE = { requeue: "Requeued", cancel: "Cancelled", discard: "Discarded", resend: "Resent", replay: "Sent again as a new event", view_content: "Content looked at" };

/** @param {Api.EventAudit} audit */
function acted({ action, actor, at, reason }) {
  return item("operator", [el("b", {}, lookUp(DONE, action, action)), ` by ${actor ?? UNKNOWN}`], relativeTime(at),
    reason ? el("p", { class: "muted" }, reason) : null);
}

/** What comes next, or how it ended. @param {Api.EventDetail} event */
function ending(event) {
  if (event.delivery_status === "pending") {
    const next = event.next_attempt_at ? countdown(event.next_attempt_at) : "";
    return [item("next", [el("b", {}, event.attempts > 0 ? "Next attempt " : "First attempt "), next], null)];
  }
  if (event.delivery_status === "delivered") return [item("ok end", el("b", {}, "Delivered"), relativeTime(event.delivered_at ?? event.updated_at))];
  const kind = event.failure_kind ?? "failed";
  return [item(kind === "cancelled" ? "end" : "bad end", el("b", {}, `Dead letter: ${kind}`), relativeTime(event.updated_at))];
}
