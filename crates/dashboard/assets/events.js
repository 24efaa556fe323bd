// Browses events of any state. The filters are those of the API.

import { listEvents } from "./api.js";
import { button, el, field, panel, select } from "./dom.js";
import { destinationUrl, eventLink, formatCount, relativeTime, statusPill, countdown } from "./format.js";
import { command, enqueueCommand } from "./first-steps.js";
import { cell, createList } from "./list.js";
import { replaceQuery } from "./router.js";

const STATUSES = [["", "Any status"], ["pending", "Pending"], ["delivered", "Delivered"], ["failed", "Failed"]];

/** @param {import("./router.js").Route} route @returns {import("./app.js").View} */
export function openEvents({ query }) {
  const status = select({}, STATUSES, query.get("status") ?? "");
  const destination = el("input", { type: "url", placeholder: "The whole URL", value: query.get("destination") ?? "", spellcheck: "false" });
  const endpoint = el("input", { placeholder: "ep_…", value: query.get("endpoint_id") ?? "", spellcheck: "false" });
  const form = el("form", { class: "filters", role: "search", "aria-label": "Filter events" },
    field("Status", status), field("Destination", destination), field("Endpoint", endpoint),
    el("button", { type: "submit" }, "Filter"), button("Clear", clear, { class: "plain" }));
  const filter = () => ({ status: status.value, destination: destination.value.trim(), endpoint_id: endpoint.value.trim() });
  const list = createList({
    label: "Events",
    className: "events",
    columns: ["Event", "Status", "Destination", "Attempts", "Next or last change"],
    load: async (limit, cursor) => {
      const page = await listEvents(filter(), limit, cursor);
      return { items: page.events, cursor: page.next_cursor };
    },
    keyOf: (event) => event.event_id,
    cells: eventCells,
    empty: () => (Object.values(filter()).some(Boolean)
      ? el("p", {}, "No event matches this filter.")
      : el("div", {}, el("p", {}, "No events yet. This command enqueues one:"), command(enqueueCommand()))),
  });
  const root = el("div", {}, el("h1", {}, "Events"), el("p", { class: "lead muted" }, "Newest first. Find one event by its id with ", el("kbd", {}, "/"), "."), form);
  const frame = panel("Events", list.status, button("Refresh", list.refresh, { class: "end" }));
  frame.append(list.root);
  root.append(frame);

  function apply() {
    replaceQuery(filter());
    list.reset();
  }

  function clear() {
    status.value = destination.value = endpoint.value = "";
    apply();
  }

  form.addEventListener("submit", (submit) => {
    submit.preventDefault();
    apply();
  });
  status.addEventListener("change", apply);
  return { title: "Events", root, refresh: list.refresh, poll: list.refreshIfIdle };
}

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
