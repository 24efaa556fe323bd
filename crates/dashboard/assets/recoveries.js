// The recoveries of endpoints: what they have sent so far, and a button that stops them.

import { confirmAction } from "./actions.js";
import { listOperations } from "./api.js";
import { mayOperate } from "./caller.js";
import { button, el, panel } from "./dom.js";
import { formatCount, formatExact, lookUp, pill, relativeTime } from "./format.js";
import { cell } from "./list.js";
import { createOperatorList } from "./operator-list.js";
import { hashOf } from "./router.js";

/** @type {Record<string, string>} */
const TITLES = { recover: "Send failed messages again", replay_missing: "Send missing messages" };
/** @type {Record<string, string>} */
const COLORS = { running: "info", finished: "ok", stopped: "warn" };

export function createRecoveries() {
  const list = createOperatorList({
    label: "Recoveries of endpoints",
    className: "operations",
    columns: ["Operation", "Progress", "Started by", ""],
    load: async (limit, cursor) => {
      const page = await listOperations(limit, cursor);
      return { items: page.operations, cursor: page.next_cursor };
    },
    keyOf: (operation) => operation.operation_id,
    cells,
    empty: () => el("p", {}, "No endpoint was recovered yet. Start a recovery on the page of an endpoint."),
  });
  const root = panel("Recoveries of endpoints", list.status);
  root.append(list.root);
  return { root, refresh: list.refresh, refreshHead: list.refreshHead };
}

/** @param {Api.Operation} operation */
function isRunning({ state }) {
  return state === "running";
}

/** @param {Api.Operation} operation */
function cells(operation) {
  const { operation_id: id, kind, endpoint_id: endpoint, since, until, actor, created_at: at } = operation;
  const period = `${formatExact(since)} to ${formatExact(until)}`;
  const subject = { operation_id: id, summary: `${lookUp(TITLES, kind, kind)}: ${endpoint}` };
  const stop = isRunning(operation) && mayOperate()
    ? button("Stop", () => confirmAction("stopRecovery", subject), { class: "danger", "data-action": "stop", "aria-label": `Stop ${id}` }) : null;
  return [
    cell("event", el("a", { href: hashOf(["events"], { endpoint_id: endpoint }), "data-open": true }, lookUp(TITLES, kind, kind)),
      el("span", { class: "type", title: period }, el("span", { class: "mono" }, endpoint), ` ${period}`)),
    cell("progress", progressOf(operation)),
    cell("when", el("span", {}, actor), el("br"), relativeTime(at)),
    cell("actions", stop),
  ];
}

/** How many messages match is known only at the end: the bar of a running recovery has no length. @param {Api.Operation} operation */
function progressOf(operation) {
  const { state, done_count: done, examined_count: examined, rate_per_second: rate } = operation;
  const bar = isRunning(operation) ? el("progress", { "aria-label": "Progress" }) : el("progress", { class: state, max: 1, value: 1, "aria-label": "Progress" });
  return [bar, el("p", { class: "muted" }, pill(state, lookUp(COLORS, state, "")), ` ${formatCount(done)} sent of ${formatCount(examined)} examined`,
    isRunning(operation) ? `, ${formatCount(rate)} per second at most` : null)];
}
