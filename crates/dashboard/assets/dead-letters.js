// Dead letters: chosen by a filter, repaired one by one or all at once.

import { confirmAction } from "./actions.js";
import { listDeadLetters } from "./api.js";
import { createBulkForm } from "./bulk-form.js";
import { mayOperate } from "./caller.js";
import { button, el, panel } from "./dom.js";
import { createConditions, hintOn } from "./event-filter.js";
import { createFilterForm } from "./filter-form.js";
import { destinationUrl, eventLink, formatCount, relativeTime, statusPill } from "./format.js";
import { cell } from "./list.js";
import { createOperatorList } from "./operator-list.js";

/** @param {import("./router.js").Route} route @returns {View} */
export function openDeadLetters({ query }) {
  const { controls, fields } = createConditions(query, "Not cancelled");
  const form = createFilterForm({ label: "Filter dead letters", controls, fields, immediate: [controls.failure_kind], onApply });
  const bulk = createBulkForm(form.filter);
  const list = createOperatorList({
    label: "Dead letters",
    className: "dead-letters",
    columns: ["Event", "Failure", "Attempts", "Failed", ""],
    load: async (limit, cursor) => {
      const page = await listDeadLetters({ failure_kind: "not_cancelled", ...form.filter() }, limit, cursor);
      return { items: page.events, cursor: page.next_cursor, searchedUntil: page.searched_until };
    },
    keyOf: (event) => event.event_id,
    timeOf: (event) => event.updated_at,
    cells,
    empty: () => (!form.isEmpty()
      ? el("div", {}, el("p", {}, "No dead letter matches this filter."), hintOn(form.filter()))
      : el("div", {}, el("p", { class: "good" }, "No dead letters."), el("p", {}, "Events arrive here when all their attempts have failed, when a receiver answers 410 Gone, or when they expire."))),
  });

  function onApply() {
    bulk.count();
    list.reset();
  }

  function refresh() {
    bulk.count();
    return list.refresh();
  }

  const frame = panel("Dead letters", list.status, button("Refresh", refresh, { class: "end" }));
  frame.append(list.root);
  const root = el("div", {}, el("h1", {}, "Dead letters"), form.root, bulk.root, frame);
  return {
    title: "Dead letters",
    root,
    refresh,
    poll: list.refreshIfIdle,
    onOverview: bulk.follow,
  };
}

/** @param {Api.Event} event */
function cells(event) {
  const act = (/** @type {string} */ action, /** @type {string} */ label, attributes = {}) =>
    button(label, () => confirmAction(action, event), { "aria-label": `${label} ${event.event_id}`, "data-action": action, ...attributes });
  return [
    cell("event", eventLink(event.event_id), el("span", { class: "type", title: event.event_type }, event.event_type)),
    cell("failure", destinationUrl(event.destination_url),
      el("span", { class: "excerpt", title: event.last_error }, statusPill({ ...event, delivery_status: "failed" }), " ", event.last_error ?? "")),
    cell("attempts", `${formatCount(event.attempts)} / ${formatCount(event.max_attempts)}`),
    cell("when", relativeTime(event.updated_at)),
    cell("actions", mayOperate() ? [act("requeue", "Requeue"), event.failure_kind === "cancelled" ? null : act("cancel", "Cancel", { class: "danger" })] : null),
  ];
}
