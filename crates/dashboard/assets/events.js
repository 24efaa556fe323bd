// Browses events of any state. The filters are those of the API.

import { listEvents } from "./api.js";
import { button, el, field, panel, select } from "./dom.js";
import { createConditions, hintOn } from "./event-filter.js";
import { createFilterForm } from "./filter-form.js";
import { destinationUrl, eventLink, formatCount, relativeTime, statusPill, countdown } from "./format.js";
import { command } from "./copy.js";
import { enqueueCommand } from "./first-steps.js";
import { cell } from "./list.js";
import { createOperatorList } from "./operator-list.js";

const REFERENCES = [["event_id", "Event id"], ["endpoint_id", "Endpoint"], ["payment_request_id", "Payment request"], ["session_id", "Session"], ["webhook_id", "Webhook"]];
const STATUSES = [["", "Any status"], ["pending", "Pending"], ["retrying", "Retrying"], ["delivered", "Delivered"], ["failed", "Failed"]];

/** @param {import("./router.js").Route} route @returns {View} */
export function openEvents({ query }) {
  const { controls: conditions, fields } = createConditions(query, "Any or none");
  const status = select({ name: "status" }, STATUSES, query.get("status") ?? "");
  const references = Object.fromEntries(REFERENCES.map(([name]) => [name, el("input", { name, value: query.get(name) ?? "", spellcheck: "false", autocomplete: "off" })]));
  const controls = { status, ...conditions, ...references };
  const more = el("details", { class: "more-conditions", open: REFERENCES.some(([name]) => query.has(name)) }, el("summary", {}, "Ids and references"),
    el("div", { class: "filters" }, REFERENCES.map(([name, label]) => field(label, references[name]))));
  const form = createFilterForm({ label: "Filter events", controls, fields: [field("Status", status), ...fields], more, immediate: [status, conditions.failure_kind], onApply: () => list.reset() });
  const list = createOperatorList({
    label: "Events",
    className: "events",
    columns: ["Event", "Status", "Destination", "Attempts", "Next or last change"],
    load: async (limit, cursor) => {
      const page = await listEvents(form.filter(), limit, cursor);
      return { items: page.events, cursor: page.next_cursor, searchedUntil: page.searched_until };
    },
    keyOf: (event) => event.event_id,
    timeOf: (event) => event.created_at,
    cells: eventCells,
    empty: () => (!form.isEmpty()
      ? el("div", {}, el("p", {}, "No event matches this filter."), hintOn(form.filter()))
      : el("div", {}, el("p", {}, "No events yet. This command enqueues one:"), command(enqueueCommand()))),
  });
  const root = el("div", {}, el("h1", {}, "Events"), el("p", { class: "lead muted" }, "Newest first. Find one event by its id with ", el("kbd", {}, "/"), "."), form.root);
  const frame = panel("Events", list.status, button("Refresh", list.refresh, { class: "end" }));
  frame.append(list.root);
  root.append(frame);

  return { title: "Events", root, refresh: list.refresh, poll: list.refreshIfIdle };
}

/** @param {Api.Event} event */
function eventCells(event) {
  const when = event.delivery_status === "pending" && event.next_attempt_at
    ? [el("span", { class: "muted" }, "next "), countdown(event.next_attempt_at)]
    : [relativeTime(event.updated_at)];
  return [
    cell("event", eventLink(event.event_id), el("span", { class: "type", title: event.event_type }, event.event_type)),
    cell("status", statusPill(event)),
    cell("failure", destinationUrl(event.destination_url), event.last_error ? el("span", { class: "excerpt", title: event.last_error }, event.last_error) : null),
    cell("attempts", `${formatCount(event.attempts)} / ${formatCount(event.max_attempts)}`),
    cell("when", ...when),
  ];
}
