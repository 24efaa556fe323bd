// One event: why it is where it is, what was done to it by hand, and its attempts. Its address is in the page's, so that
// it can be passed on.

import { readEvent } from "./api.js";
import { byId, el, setRefusal, setText } from "./dom.js";
import { UNKNOWN, count, destination, moment, took } from "./format.js";

const dialog = byId("event");
let eventId = null;
let shown = null;
let handlers;

/** `onAct(action, event)` is called for a button, `onError(error)` beside what is shown of it here. */
export function startEvent(given) {
  handlers = given;
  byId("event-close").addEventListener("click", () => dialog.close());
  byId("event-requeue").addEventListener("click", () => handlers.onAct("requeue", shown));
  byId("event-cancel").addEventListener("click", () => handlers.onAct("cancel", shown));
  // A click on what lies around the panel closes it.
  dialog.addEventListener("click", (click) => { if (click.target === dialog) dialog.close(); });
  dialog.addEventListener("close", leave);
  window.addEventListener("hashchange", follow);
  follow();
}

/** Reads the open event again, if it is `id` or any. */
export function readOpenEvent(id = eventId) {
  if (eventId !== null && id === eventId) read();
}

export function openEventIsPending() {
  return shown?.delivery_status === "pending";
}

function follow() {
  const named = /^#event=(.+)$/.exec(location.hash);
  const next = named ? decode(named[1]) : null;
  if (next === eventId) return;
  eventId = next;
  shown = null;
  if (eventId === null) return dialog.close();
  setRefusal(byId("event-error"), null);
  byId("event-title").textContent = eventId;
  byId("event-body").hidden = true;
  byId("event-reading").hidden = false;
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
  byId("event-title").focus();
  read();
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function leave() {
  if (eventId === null) return;
  eventId = null;
  shown = null;
  history.replaceState(null, "", location.pathname + location.search);
}

async function read() {
  const asked = eventId;
  try {
    const event = await readEvent(asked);
    if (asked !== eventId) return;
    shown = event;
    setRefusal(byId("event-error"), null);
    show(event);
  } catch (error) {
    if (asked !== eventId) return;
    setRefusal(byId("event-error"), String(error));
    handlers.onError(error);
  }
  byId("event-reading").hidden = true;
  byId("event-body").hidden = shown === null;
}

function show(event) {
  setText(byId("explanation"), event.explanation ?? "");
  const focused = document.activeElement;
  byId("event-requeue").hidden = event.delivery_status !== "failed";
  byId("event-cancel").hidden = event.delivery_status === "delivered";
  if (focused?.hidden) byId("event-title").focus();
  byId("facts").replaceChildren(...facts(event));
  const history = Array.isArray(event.history) ? event.history : [];
  byId("no-history").hidden = history.length > 0;
  byId("history-frame").hidden = history.length === 0;
  byId("history").replaceChildren(...history.map(attemptRow));
  const audit = Array.isArray(event.audit) ? event.audit : [];
  byId("by-hand").hidden = audit.length === 0;
  byId("audit").replaceChildren(...audit.map(actionItem));
}

function facts(event) {
  const status = [event.delivery_status, event.failure_kind].filter(Boolean).join(", ");
  const all = [
    ["Status", status],
    ["Type", event.event_type],
    ["Destination", event.destination_url && destination(event.destination_url)],
    ["Attempts", `${count(event.attempts)} of ${count(event.max_attempts)}`],
    ["Last error", event.last_error],
    ["Next attempt", event.next_attempt_at && moment(event.next_attempt_at)],
    ["Last attempt", event.last_attempted_at && moment(event.last_attempted_at)],
    ["Delivered", event.delivered_at && moment(event.delivered_at)],
    ["Changed", event.updated_at && moment(event.updated_at)],
    ["Created", event.created_at && moment(event.created_at)],
    ["Payment request", event.payment_request_id],
    ["Webhook", event.webhook_id],
    ["Session", event.session_id],
  ];
  return all.filter(([, value]) => value).map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)));
}

function attemptRow(attempt) {
  const status = attempt.http_status;
  const delivered = status >= 200 && status < 300;
  return el("tr", {},
    el("td", { class: "number" }, count(attempt.attempt)),
    el("td", {}, moment(attempt.started_at)),
    el("td", {}, took(attempt.duration_ms)),
    el("td", {}, el("span", { class: delivered ? "word ok" : "word bad" }, String(status ?? attempt.error_class ?? UNKNOWN))),
    el("td", { class: "said" }, attempt.excerpt || ""),
    el("td", { class: "worker" }, attempt.worker_id ?? UNKNOWN));
}

function actionItem({ action, actor, at, reason }) {
  return el("li", {}, el("b", {}, action ?? UNKNOWN), ` by ${actor ?? UNKNOWN}, `, moment(at), reason ? `: ${reason}` : "");
}
