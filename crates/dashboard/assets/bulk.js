// Bulk operations: their progress, who started them, and a button that stops them.

import { confirmAction } from "./actions.js";
import { getBulk, listBulk } from "./api.js";
import { mayOperate } from "./caller.js";
import { describeFilter } from "./dead-letter-filter.js";
import { button, el, panel, setError } from "./dom.js";
import { formatCount, formatSeconds, pill, relativeTime, sentenceWithTimes } from "./format.js";
import { cell, createList } from "./list.js";
import { showRunningOperations } from "./navigation.js";
import { reportMissingKey } from "./problems.js";
import { hashOf } from "./router.js";

const VERBS = { requeue: "Requeue", cancel: "Cancel", discard: "Discard" };
const FAST_POLL_MS = 1000;

/** @param {import("./router.js").Route} route @returns {import("./app.js").View} */
export function openBulk({ id }) {
  return id === null ? openOperations() : openOperation(id);
}

function openOperations() {
  const list = createList({
    label: "Bulk operations",
    className: "operations",
    columns: ["Operation", "Progress", "Started by", ""],
    load: async (limit, cursor) => {
      const page = await listBulk(limit, cursor);
      const items = page?.operations ?? [];
      if (cursor === null) showRunningOperations(items.filter(isRunning).length);
      return { items, cursor: page?.next_cursor ?? null };
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
  const root = el("div", {}, el("h1", {}, "Operations"), frame);
  return { title: "Operations", root, refresh: list.refresh, poll: list.refresh };
}

function openOperation(id) {
  const body = el("div", { class: "stack" }, el("p", { class: "empty skeleton" }, "Loading…"));
  const error = el("p", { class: "error", role: "alert", hidden: true });
  const root = el("div", {}, el("a", { class: "up", href: "#/bulk" }, "← Operations"), error, body);
  let operation = null;

  async function refresh() {
    try {
      operation = await getBulk(id);
      setError(error, null);
      show();
    } catch (problem) {
      setError(error, problem.status === 401 ? null : String(problem));
      if (operation === null) body.replaceChildren();
      reportMissingKey(problem);
    }
  }

  function show() {
    const hadFocus = body.contains(document.activeElement);
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
    body.replaceChildren(
      el("h1", { class: "event-title" }, titleOf(operation), statePill(operation)),
      el("div", { class: "panel big-progress" }, progressOf(operation), el("p", { class: "actions" }, stopButton(operation))),
      details);
    if (hadFocus) body.querySelector("button")?.focus();
  }

  const timer = setInterval(() => { if (operation && isRunning(operation) && !document.hidden) refresh(); }, FAST_POLL_MS);
  return { title: "Operation", root, refresh, poll() {}, close: () => clearInterval(timer) };
}

function isRunning({ state }) {
  return state === "running";
}

function titleOf({ action, matched_count: count }) {
  return `${VERBS[action] ?? action} ${formatCount(count)} dead letters`;
}

function statePill({ state }) {
  return pill(state, { running: "info", finished: "ok", stopped: "warn" }[state] ?? "");
}

/** The bar and its words. Events that changed meanwhile are skipped, so a finished operation may have done less than it matched. */
function progressOf(operation) {
  const { matched_count: matched, done_count: done, rate_per_second: rate, state } = operation;
  const max = Math.max(matched, done, 1);
  const left = Math.max(0, matched - done);
  const words = {
    running: `${formatCount(done)} of ${formatCount(matched)}, about ${formatSeconds(Math.max(1, left / Math.max(rate, 1)))} left`,
    finished: `${formatCount(done)} done${left > 0 ? `, ${formatCount(left)} had changed meanwhile` : ""}`,
    stopped: `stopped after ${formatCount(done)} of ${formatCount(matched)}`,
  };
  return [
    el("progress", { max, value: state === "finished" ? max : Math.min(done, max), class: state, "aria-label": "Progress" }),
    el("p", { class: "muted" }, words[state] ?? state),
  ];
}

function stopButton(operation) {
  if (!isRunning(operation) || !mayOperate()) return null;
  const subject = { operation_id: operation.operation_id, summary: titleOf(operation) };
  return button("Stop", () => confirmAction("stop", subject), { class: "danger", "data-action": "stop", "aria-label": `Stop ${operation.operation_id}` });
}
