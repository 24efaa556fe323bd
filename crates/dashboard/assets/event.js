// The page of one event: why it is where it is, what can be done, and its life as a time line.

import { confirmAction } from "./actions.js";
import { getEvent } from "./api.js";
import { mayOperate } from "./caller.js";
import { button, el, panel, setError } from "./dom.js";
import { destinationUrl, formatCount, formatExact, relativeTime, sentenceWithTimes, statusPill } from "./format.js";
import { reportMissingKey } from "./problems.js";
import { hashOf } from "./router.js";
import { createTimeline } from "./timeline.js";

/** @param {import("./router.js").Route} route @returns {import("./app.js").View} */
export function openEvent({ id }) {
  const eventId = String(id);
  const watched = createEventPanel(eventId);
  const root = el("div", {}, el("a", { class: "up", href: "#/events" }, "← Events"), watched.root);
  return {
    title: eventId,
    root,
    refresh: watched.refresh,
    poll: watched.refreshIfPending,
    onNotices(notices) {
      if (notices.some((notice) => notice.webhook_delivery_id === eventId)) watched.refresh();
    },
  };
}

/** Shows an event and follows it. @param {string} eventId */
export function createEventPanel(eventId) {
  const pillPlace = el("span", {});
  const explanation = el("p", { class: "explanation", "aria-live": "polite" });
  const error = el("p", { class: "error", role: "alert", hidden: true });
  const act = (action) => () => confirmAction(action, shown);
  const buttons = {
    requeue: button("Requeue", act("requeue"), { class: "main", "data-action": "requeue" }),
    cancel: button("Cancel", act("cancel"), { class: "danger" }),
    discard: button("Discard", act("discard"), { class: "danger" }),
  };
  const timeline = createTimeline();
  const facts = el("dl", { class: "facts" });
  const life = panel("Life of the event");
  life.append(timeline.root);
  const details = panel("Details");
  details.append(facts);
  const body = el("div", { class: "event-body", hidden: true },
    explanation, el("p", { class: "actions" }, Object.values(buttons)), el("div", { class: "columns event-columns" }, life, details));
  const loading = el("p", { class: "empty skeleton" }, "Loading…");
  const root = el("article", { class: "event-page" },
    el("h1", { class: "event-title" }, el("span", { class: "mono" }, eventId), pillPlace), error, loading, body);
  let shown = null;
  let version = "";

  async function refresh() {
    try {
      shown = await getEvent(eventId);
      setError(error, null);
      show();
    } catch (problem) {
      if (problem.status === 404) shown = null;
      setError(error, problem.status === 401 ? null : String(problem));
      reportMissingKey(problem);
    }
    loading.hidden = true;
    body.hidden = shown === null;
  }

  function show() {
    const current = JSON.stringify([shown, mayOperate()]);
    if (current === version) return;
    version = current;
    pillPlace.replaceChildren(statusPill(shown));
    explanation.replaceChildren(...sentenceWithTimes(shown.explanation));
    buttons.requeue.hidden = buttons.discard.hidden = !mayOperate() || shown.delivery_status !== "failed";
    buttons.cancel.hidden = !mayOperate() || shown.delivery_status === "delivered" || shown.failure_kind === "cancelled";
    facts.replaceChildren(...factRows(shown));
    timeline.show(shown);
  }

  return {
    root,
    refresh,
    refreshIfPending() {
      if (shown === null || shown.delivery_status === "pending") refresh();
    },
  };
}

function factRows(event) {
  const time = (at) => at && [relativeTime(at), el("span", { class: "muted exact" }, formatExact(at))];
  const fields = [
    ["Type", event.event_type],
    ["Destination", event.destination_url && el("a", { href: hashOf(["events"], { destination: event.destination_url }), title: "All events of this destination" }, destinationUrl(event.destination_url))],
    ["Attempts", `${formatCount(event.attempts)} of ${formatCount(event.max_attempts)}`],
    ["Last error", event.last_error],
    ["Created", time(event.created_at)],
    ["Next attempt", time(event.next_attempt_at)],
    ["Last attempt", time(event.last_attempted_at)],
    ["Delivered", time(event.delivered_at)],
    ["Updated", time(event.updated_at)],
    ["Payment request", event.payment_request_id],
    ["Webhook", event.webhook_id],
    ["Session", event.session_id],
    ["Stored by", event.stored_by],
  ];
  return fields.filter(([, value]) => value).map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)));
}
