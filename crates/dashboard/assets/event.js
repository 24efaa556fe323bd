// The event dialog: explanation, operator actions and attempts. The page's URL contains the event id, so it can be shared.

import { getEvent } from "./api.js";
import { loadCaller, mayOperate } from "./caller.js";
import { byId, el, setError, setText } from "./dom.js";
import { UNKNOWN, destinationUrl, formatCount, formatMs, relativeTime } from "./format.js";

const dialog = byId("event");
let eventId = null;
let shown = null;
let handlers;

/** Calls `onAction(name, event)` for a button, and `onError(error)` after an error. */
export function initEventDialog(callbacks) {
  handlers = callbacks;
  byId("event-close").addEventListener("click", () => dialog.close());
  for (const action of ["requeue", "cancel", "discard"]) {
    byId(`event-${action}`).addEventListener("click", () => handlers.onAction(action, shown));
  }
  // A click on the backdrop closes the dialog.
  dialog.addEventListener("click", (click) => { if (click.target === dialog) dialog.close(); });
  dialog.addEventListener("close", onClose);
  window.addEventListener("hashchange", openFromUrl);
  openFromUrl();
}

/** Loads the open event again, if its id is `id`. */
export function refreshOpenEvent(id = eventId) {
  if (eventId !== null && id === eventId) load();
}

export function isOpenEventPending() {
  return shown?.delivery_status === "pending";
}

function openFromUrl() {
  const match = /^#event=(.+)$/.exec(location.hash);
  const next = match ? decode(match[1]) : null;
  if (next === eventId) return;
  eventId = next;
  shown = null;
  if (eventId === null) return dialog.close();
  setError(byId("event-error"), null);
  byId("event-title").textContent = eventId;
  byId("event-body").hidden = true;
  byId("event-loading").hidden = false;
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
  byId("event-title").focus();
  load();
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function onClose() {
  if (eventId === null) return;
  eventId = null;
  shown = null;
  history.replaceState(null, "", location.pathname + location.search);
}

async function load() {
  const requestedId = eventId;
  try {
    await loadCaller();
    const event = await getEvent(requestedId);
    if (requestedId !== eventId) return;
    shown = event;
    setError(byId("event-error"), null);
    show(event);
  } catch (error) {
    if (requestedId !== eventId) return;
    if (error.status === 404) shown = null;
    setError(byId("event-error"), String(error));
    handlers.onError(error);
  }
  byId("event-loading").hidden = true;
  byId("event-body").hidden = shown === null;
}

function show(event) {
  setText(byId("explanation"), event.explanation ?? "");
  const focused = document.activeElement;
  byId("event-requeue").hidden = byId("event-discard").hidden = !mayOperate() || event.delivery_status !== "failed";
  byId("event-cancel").hidden = !mayOperate() || event.delivery_status === "delivered";
  if (focused?.hidden) byId("event-title").focus();
  byId("event-fields").replaceChildren(...fieldRows(event));
  const history = event.history ?? [];
  byId("no-history").hidden = history.length > 0;
  byId("history-frame").hidden = history.length === 0;
  byId("history").replaceChildren(...history.map(attemptRow));
  const audit = event.audit ?? [];
  byId("by-operators").hidden = audit.length === 0;
  byId("audit").replaceChildren(...audit.map(auditItem));
}

function fieldRows(event) {
  const status = [event.delivery_status, event.failure_kind].filter(Boolean).join(", ");
  const time = (at) => at && relativeTime(at);
  const fields = [
    ["Status", status],
    ["Type", event.event_type],
    ["Destination", event.destination_url && destinationUrl(event.destination_url)],
    ["Attempts", `${formatCount(event.attempts)} of ${formatCount(event.max_attempts)}`],
    ["Last error", event.last_error],
    ["Next attempt", time(event.next_attempt_at)],
    ["Last attempt", time(event.last_attempted_at)],
    ["Delivered", time(event.delivered_at)],
    ["Updated", time(event.updated_at)],
    ["Created", time(event.created_at)],
    ["Payment request", event.payment_request_id],
    ["Webhook", event.webhook_id],
    ["Session", event.session_id],
    ["Stored by", event.stored_by],
  ];
  return fields.filter(([, value]) => value).map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)));
}

function attemptRow(attempt) {
  const status = attempt.http_status;
  const late = attempt.applied === false;
  const delivered = status >= 200 && status < 300 && !late;
  const result = String(status ?? attempt.error_class ?? UNKNOWN) + (late ? ", not applied" : "");
  return el("tr", {},
    el("td", { class: "number" }, formatCount(attempt.attempt)),
    el("td", {}, relativeTime(attempt.started_at)),
    el("td", {}, formatMs(attempt.duration_ms)),
    el("td", {}, el("span", { class: delivered ? "status ok" : "status bad" }, result)),
    el("td", { class: "excerpt" }, attempt.excerpt || ""),
    el("td", { class: "worker" }, attempt.worker_id ?? UNKNOWN));
}

function auditItem({ action, actor, at, reason }) {
  return el("li", {}, el("b", {}, action ?? UNKNOWN), ` by ${actor ?? UNKNOWN}, `, relativeTime(at), reason ? `: ${reason}` : "");
}
