// The page of one event: why it is where it is, what can be done, and its life as a time line.

import { confirmAction } from "./actions.js";
import { getEvent } from "./api.js";
import { mayOperate } from "./caller.js";
import { button, el, panel, setError } from "./dom.js";
import { endpointOf } from "./endpoint-id.js";
import { createContentPanel } from "./event-content.js";
import { destinationUrl, formatCount, formatExact, relativeTime, sentenceWithTimes, statusPill } from "./format.js";
import { hasStatus } from "./http.js";
import { createSequence } from "./latest.js";
import { createPace } from "./pace.js";
import { reportMissingKey } from "./problems.js";
import { hashOf, navigate } from "./router.js";
import { createTimeline } from "./timeline.js";

// The longest pause between two looks at an event that is pending.
const PAUSE_MS_MAX = 4000;

/** @param {import("./router.js").Route} route @returns {View} */
export function openEvent({ id }) {
  const eventId = String(id);
  const watched = createEventPanel(eventId);
  const root = el("div", {}, el("a", { class: "up", href: "#/events" }, "← Events"), watched.root);
  return {
    title: eventId,
    root,
    refresh: watched.refresh,
    poll: watched.refreshIfPending,
    onTick: watched.refreshIfPending,
    onNotices: watched.onNotices,
  };
}

/** Shows an event and follows it. @param {string} eventId */
export function createEventPanel(eventId) {
  const pillPlace = el("span", {});
  const explanation = el("p", { class: "explanation", "aria-live": "polite" });
  const error = el("p", { class: "error", role: "alert", hidden: true });
  const act = (/** @type {string} */ action) => () => confirmAction(action, shown);
  const buttons = {
    requeue: button("Requeue", act("requeue"), { class: "main", "data-action": "requeue" }),
    cancel: button("Cancel", act("cancel"), { class: "danger", "data-action": "cancel" }),
    discard: button("Discard", act("discard"), { class: "danger", "data-action": "discard" }),
    replay: button("Send again", () => confirmAction("replay", shown, (event) => navigate(hashOf(["events", event.event_id]))), { class: "main", "data-action": "replay" }),
  };
  const content = createContentPanel(eventId, refresh);
  const timeline = createTimeline();
  const facts = el("dl", { class: "facts" });
  const life = panel("Life of the event");
  life.append(timeline.root);
  const details = panel("Details");
  details.append(facts);
  const body = el("div", { class: "event-body", hidden: true },
    explanation, el("p", { class: "actions" }, Object.values(buttons)), el("div", { class: "columns event-columns" }, life, el("div", { class: "stack" }, details, content.root)));
  const loading = el("p", { class: "empty skeleton" }, "Loading…");
  const root = el("article", { class: "event-page" },
    el("h1", { class: "event-title" }, el("span", { class: "mono" }, eventId), pillPlace), error, loading, body);
  /** @type {Api.EventDetail | null} */
  let shown = null;
  let version = "";
  let isUnknown = false;
  const send = createSequence();
  const pace = createPace(PAUSE_MS_MAX);

  async function refresh() {
    const mayShow = send();
    pace.next(false);
    try {
      const event = await getEvent(eventId);
      if (!mayShow()) return;
      shown = event;
      isUnknown = false;
      setError(error, null);
      show(shown);
    } catch (problem) {
      if (!mayShow()) return;
      isUnknown = hasStatus(problem, 404);
      if (isUnknown) shown = null;
      setError(error, hasStatus(problem, 401) ? null : String(problem));
      reportMissingKey(problem);
    }
    loading.hidden = true;
    body.hidden = shown === null;
  }

  /** @param {Api.EventDetail} event */
  function show(event) {
    const current = JSON.stringify([event, mayOperate()]);
    if (current === version) return;
    version = current;
    pace.next(true);
    pillPlace.replaceChildren(statusPill(event));
    explanation.replaceChildren(...sentenceWithTimes(event.explanation));
    buttons.requeue.hidden = buttons.discard.hidden = !mayOperate() || event.delivery_status !== "failed";
    buttons.replay.hidden = !mayOperate() || event.delivery_status !== "delivered";
    content.root.hidden = !mayOperate();
    buttons.cancel.hidden = !mayOperate() || event.delivery_status === "delivered" || event.failure_kind === "cancelled";
    facts.replaceChildren(...factRows(event));
    timeline.show(event);
  }

  return {
    root,
    refresh,
    /** Follows the event until it has ended. */
    refreshIfPending() {
      const hasEnded = isUnknown || (shown !== null && shown.delivery_status !== "pending");
      if (!hasEnded && pace.isDue()) refresh();
    },
    /** @param {Api.Notice[]} notices */
    onNotices(notices) {
      if (notices.some((notice) => notice.webhook_delivery_id === eventId)) refresh();
    },
  };
}

/** @param {Api.EventDetail} event */
function factRows(event) {
  const endpoint = endpointOf(event);
  const time = (/** @type {string | null} */ at) => at && [relativeTime(at), el("span", { class: "muted exact" }, formatExact(at))];
  const fields = [
    ["Type", event.event_type],
    ["Destination", el("a", { href: hashOf(["destinations", event.destination_id]) }, destinationUrl(event.destination_url))],
    ["Endpoint", endpoint && el("span", { class: "mono" }, endpoint)],
    ["Events", el("a", { href: hashOf(["events"], endpoint ? { endpoint_id: endpoint } : { destination: event.destination_url }) }, "all of this destination")],
    ["Sent again from", event.replay_of && el("a", { class: "mono", href: hashOf(["events", event.replay_of]) }, event.replay_of)],
    ["Attempts", `${formatCount(event.attempts)} of ${formatCount(event.max_attempts)}`],
    ["Last error", event.last_error],
    ["Created", time(event.created_at)],
    ["Next attempt", time(event.next_attempt_at)],
    ["Last attempt", time(event.last_attempted_at)],
    ["Delivered", time(event.delivered_at)],
    ["Updated", time(event.updated_at)],
    ["Payment request", event.payment_request_id],
    ["Webhook", endpoint ? null : event.webhook_id],
    ["Session", event.session_id],
    ["Stored by", event.stored_by],
  ];
  return fields.filter(([, value]) => value).map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)));
}
