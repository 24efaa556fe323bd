// Dead letters: chosen by a filter, repaired one by one or all at once.

import { confirmAction } from "./actions.js";
import { listDeadLetters, listEvents } from "./api.js";
import { createBulkForm } from "./bulk-form.js";
import { mayOperate } from "./caller.js";
import { button, el, field, panel, select } from "./dom.js";
import { destinationUrl, eventLink, formatCount, relativeTime, statusPill } from "./format.js";
import { hasLocalConditions, matchesLocally } from "./dead-letter-filter.js";
import { cell, createList } from "./list.js";
import { replaceQuery } from "./router.js";

const KINDS = [["", "Not cancelled"], ["exhausted", "Exhausted"], ["abandoned", "Abandoned"], ["gone", "Gone"], ["expired", "Expired"], ["cancelled", "Cancelled"]];
const ERRORS = ["http_5xx", "http_4xx", "http_500", "http_502", "http_503", "timeout", "connect", "dns", "tls", "certificate", "reset", "blocked_address"];
// A filter that the API's list lacks is applied here, to pages of this size.
const SEARCH_PAGE = 200;

/** @param {import("./router.js").Route} route @returns {import("./app.js").View} */
export function openDeadLetters({ query }) {
  const input = (name, attributes) => el("input", { spellcheck: "false", autocomplete: "off", value: query.get(name) ?? "", ...attributes });
  const fields = {
    destination: input("destination", { placeholder: "URL or endpoint id" }),
    event_type: input("event_type", { placeholder: "Any type" }),
    failure_kind: select({}, KINDS, query.get("failure_kind") ?? ""),
    error_class: input("error_class", { placeholder: "Any error", list: "error-classes" }),
    since: input("since", { type: "datetime-local" }),
    until: input("until", { type: "datetime-local" }),
  };
  const form = el("form", { class: "filters", role: "search", "aria-label": "Filter dead letters" },
    field("Destination", fields.destination), field("Event type", fields.event_type), field("Failure", fields.failure_kind),
    field("Error", fields.error_class), field("Failed since", fields.since), field("Failed until", fields.until),
    el("datalist", { id: "error-classes" }, ERRORS.map((value) => el("option", { value }))),
    el("button", { type: "submit" }, "Filter"), button("Clear", clear, { class: "plain" }));
  const bulk = createBulkForm(filter);
  const list = createList({
    label: "Dead letters",
    className: "dead-letters",
    columns: ["Event", "Failure", "Attempts", "Failed", ""],
    load,
    keyOf: (event) => event.event_id,
    cells,
    empty: () => (Object.keys(filter()).length > 0
      ? el("p", {}, "No dead letter matches this filter, as far as was searched.")
      : el("div", {}, el("p", { class: "good" }, "No dead letters."), el("p", {}, "Events arrive here when all their attempts have failed, when a receiver answers 410 Gone, or when they expire."))),
  });

  /** Returns the filter in the form of the API. */
  function filter() {
    const text = (name) => fields[name].value.trim();
    const time = (name) => (fields[name].value ? new Date(fields[name].value).toISOString() : "");
    const all = { destination: text("destination"), event_type: text("event_type"), failure_kind: text("failure_kind"), error_class: text("error_class"), since: time("since"), until: time("until") };
    return Object.fromEntries(Object.entries(all).filter(([, value]) => value));
  }

  async function load(limit, cursor) {
    const wanted = filter();
    const size = hasLocalConditions(wanted) ? SEARCH_PAGE : limit;
    const { destination } = wanted;
    const page = destination
      ? await listEvents({ status: "failed", ...(destination.startsWith("ep_") ? { endpoint_id: destination } : { destination }) }, size, cursor)
      : await listDeadLetters(wanted.failure_kind ?? "not_cancelled", size, cursor);
    return { items: page.events.filter((event) => matchesLocally(event, wanted)), cursor: page.next_cursor };
  }

  function apply() {
    replaceQuery(Object.fromEntries(Object.entries(fields).map(([name, control]) => [name, control.value.trim()])));
    bulk.count();
    list.reset();
  }

  function clear() {
    for (const control of Object.values(fields)) control.value = "";
    apply();
  }

  form.addEventListener("submit", (submit) => {
    submit.preventDefault();
    apply();
  });
  fields.failure_kind.addEventListener("change", apply);
  const frame = panel("Dead letters", list.status, button("Refresh", list.refresh, { class: "end" }));
  frame.append(list.root);
  const root = el("div", {}, el("h1", {}, "Dead letters"), form, bulk.root, frame);
  return {
    title: "Dead letters",
    root,
    refresh() {
      bulk.count();
      return list.refresh();
    },
    poll() {
      list.refreshIfIdle();
    },
  };
}

function cells(event) {
  const act = (action, label, attributes = {}) =>
    button(label, () => confirmAction(action, event), { "aria-label": `${label} ${event.event_id}`, "data-action": action, ...attributes });
  return [
    cell("event", eventLink(event.event_id), el("span", { class: "type", title: event.event_type }, event.event_type)),
    cell("failure", destinationUrl(event.destination_url),
      el("span", { class: "excerpt", title: event.last_error }, statusPill({ delivery_status: "failed", ...event }), " ", event.last_error ?? "")),
    cell("attempts", `${formatCount(event.attempts)} / ${formatCount(event.max_attempts)}`),
    cell("when", relativeTime(event.updated_at)),
    cell("actions", mayOperate() ? [act("requeue", "Requeue"), event.failure_kind === "cancelled" ? null : act("cancel", "Cancel", { class: "danger" })] : null),
  ];
}
