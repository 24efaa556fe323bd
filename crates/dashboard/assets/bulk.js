// Bulk operations: their progress, who started them, and a button that stops them.

import { confirmAction } from "./actions.js";
import { getBulk, listBulk } from "./api.js";
import { mayOperate } from "./caller.js";
import { describeFilter, matchedText } from "./event-filter.js";
import { button, el, panel, setError, updateElement } from "./dom.js";
import { formatCount, formatSeconds, lookUp, pill, relativeTime, sentenceWithTimes } from "./format.js";
import { hasStatus } from "./http.js";
import { createSequence } from "./latest.js";
import { cell } from "./list.js";
import { createOperatorList } from "./operator-list.js";
import { createPace } from "./pace.js";
import { reportMissingKey } from "./problems.js";
import { createRecoveries } from "./recoveries.js";
import { hashOf } from "./router.js";

/** @type {Record<string, string>} */
const VERBS = { requeue: "Requeue", cancel: "Cancel", discard: "Discard" };
/** @type {Record<string, string>} */
const STATE_COLORS = { running: "info", finished: "ok", stopped: "warn" };
const PAUSE_MS_MAX = 4000;

/** @param {import("./router.js").Route} route @returns {View} */
export function openBulk({ id }) {
  return id === null ? openOperations() : openOperation(id);
}

/** @returns {View} */
function openOperations() {
  const list = createOperatorList({
    label: "Bulk operations",
    className: "operations",
    columns: ["Operation", "Progress", "Started by", ""],
    load: async (limit, cursor) => {
      const page = await listBulk(limit, cursor);
      return { items: page.operations, cursor: page.next_cursor };
    },
    keyOf: (operation) => operation.operation_id,
    cells: (operation) => [
      cell("event", el("a", { href: hashOf(["bulk", operation.operation_id]), "data-open": true }, titleOf(operation)),
        el("span", { class: "type", title: describeFilter(operation.filter) }, sentenceWithTimes(describeFilter(operation.filter)))),
      cell("progress", progressOf(operation)),
      cell("when", el("span", {}, operation.actor ?? ""), el("br"), relativeTime(operation.created_at)),
      cell("actions", stopButton(operation)),
    ],
    empty: () => el("div", {}, el("p", {}, "No bulk operations yet."),
      el("p", {}, "Choose a filter at ", el("a", { href: "#/dead-letters" }, "Dead letters"), ", then requeue, cancel or discard all that match.")),
  });
  const frame = panel("Bulk operations", list.status, button("Refresh", list.refresh, { class: "end" }));
  frame.append(list.root);
  const recoveries = createRecoveries();
  const root = el("div", {}, el("h1", {}, "Operations"), frame, recoveries.root);
  const refresh = () => Promise.all([list.refresh(), recoveries.refresh()]);
  // The rows that run change all the time: a refresh keeps their buttons and the focus.
  const poll = () => Promise.all([list.refreshHead(), recoveries.refreshHead()]);
  return { title: "Operations", root, refresh, poll };
}

/** @param {string} id @returns {View} */
function openOperation(id) {
  const body = el("div", { class: "stack" }, el("p", { class: "empty skeleton" }, "Loading…"));
  const error = el("p", { class: "error", role: "alert", hidden: true });
  const root = el("div", {}, el("a", { class: "up", href: "#/bulk" }, "← Operations"), error, body);
  /** @type {Api.Bulk | null} */
  let operation = null;
  let isUnknown = false;
  const send = createSequence();
  const pace = createPace(PAUSE_MS_MAX);

  async function refresh() {
    const mayShow = send();
    pace.next(false);
    try {
      const found = await getBulk(id);
      if (!mayShow()) return;
      if (found.updated_at !== operation?.updated_at) pace.next(true);
      operation = found;
      setError(error, null);
      show(operation);
    } catch (problem) {
      if (!mayShow()) return;
      isUnknown = hasStatus(problem, 404);
      setError(error, hasStatus(problem, 401) ? null : String(problem));
      if (operation === null) body.replaceChildren();
      reportMissingKey(problem);
    }
  }

  /** @param {Api.Bulk} operation */
  function show(operation) {
    const details = panel("Details");
    const facts = [
      ["Selected", el("span", {}, sentenceWithTimes(describeFilter(operation.filter)))],
      ["Reason", operation.reason],
      ["Started", el("span", {}, relativeTime(operation.created_at), ` by ${operation.actor ?? "unknown"}`)],
      ["Stopped by", operation.stopped_by],
      ["Rate", `${formatCount(operation.rate_per_second)} per second at most`],
      ["Examined", formatCount(operation.examined_count)],
      ["Last step", relativeTime(operation.updated_at)],
    ];
    details.append(el("dl", { class: "facts" }, facts.filter(([, value]) => value).map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)))));
    const progress = el("div", { class: "stack" }, progressOf(operation));
    const shown = el("div", {},
      el("h1", { class: "event-title" }, titleOf(operation), statePill(operation)),
      el("div", { class: "panel big-progress" }, progress, el("p", { class: "actions" }, stopButton(operation))),
      details);
    updateElement(body, shown);
  }

  /** Follows the operation until it has ended, also if it could not be loaded yet. */
  function follow() {
    const hasEnded = isUnknown || (operation !== null && !isRunning(operation));
    if (!hasEnded && pace.isDue()) refresh();
  }

  return { title: "Operation", root, refresh, poll: follow, onTick: follow };
}

/** @param {{ state: string }} operation */
function isRunning({ state }) {
  return state === "running";
}

/** @param {Api.Bulk} operation */
function titleOf(operation) {
  return `${lookUp(VERBS, operation.action, operation.action)} ${matchedText(operation)} dead letters`;
}

/** @param {{ state: string }} operation */
function statePill({ state }) {
  return pill(state, lookUp(STATE_COLORS, state, ""));
}

/** The bar and its words. Events that changed meanwhile are skipped, so a finished operation may have done less than it matched. @param {Api.Bulk} operation */
function progressOf(operation) {
  const { matched_count: matched, is_exact: isExact, done_count: done, rate_per_second: rate, state } = operation;
  const max = Math.max(matched, done, 1);
  const left = Math.max(0, matched - done);
  /** @type {Record<string, string>} */
  const words = {
    running: `${formatCount(done)} of ${matchedText(operation)}, about ${formatSeconds(Math.max(1, left / Math.max(rate, 1)))}${isExact === false ? " or more" : ""} left`,
    finished: `${formatCount(done)} done${left > 0 ? `, ${formatCount(left)} had changed meanwhile` : ""}`,
    stopped: `stopped after ${formatCount(done)} of ${matchedText(operation)}`,
  };
  return [
    el("progress", { max, value: state === "finished" ? max : Math.min(done, max), class: state, "aria-label": "Progress" }),
    el("p", { class: "muted" }, lookUp(words, state, state)),
  ];
}

/** @param {Api.Bulk} operation */
function stopButton(operation) {
  if (!isRunning(operation) || !mayOperate()) return null;
  const subject = { operation_id: operation.operation_id, summary: titleOf(operation) };
  return button("Stop", () => confirmAction("stop", subject), { class: "danger", "data-action": "stop", "aria-label": `Stop ${operation.operation_id}` });
}
