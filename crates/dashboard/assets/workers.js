// The workers that send events.

import { el, panel } from "./dom.js";
import { formatAge, formatCount, relativeTime } from "./format.js";

const LATE_SECONDS = 15;
const LOST_SECONDS = 60;

export function createWorkersPanel() {
  const root = panel("Workers");
  const rows = el("ul", { class: "plain-list" });
  const empty = el("p", { class: "empty" }, "Loading…");
  root.append(rows, empty);
  return {
    root,
    /** @param {Api.Worker[]} workers */
    show(workers) {
      empty.hidden = workers.length > 0;
      empty.replaceChildren("No worker has registered. ", el("code", {}, "posthaste serve"), " starts one.");
      const usual = mostFrequent(workers.map((worker) => worker.version));
      rows.replaceChildren(...workers.map((worker) => row(worker, worker.version !== usual)));
    },
  };
}

/** @param {string[]} values */
function mostFrequent(values) {
  const count = (/** @type {string} */ value) => values.filter((other) => other === value).length;
  return [...values].sort((a, b) => count(b) - count(a))[0];
}

/** @param {Api.Worker} worker @param {boolean} isOtherVersion */
function row(worker, isOtherVersion) {
  const age = worker.heartbeat_age_seconds;
  const color = age > LOST_SECONDS ? "bad" : age > LATE_SECONDS ? "warn" : "ok";
  const heartbeat = `${age > LOST_SECONDS ? "lost" : "heartbeat"} ${formatAge(age)} ago`;
  return el("li", {},
    el("span", { class: "mono" }, worker.worker_id),
    el("span", { class: `dot ${color}` }, heartbeat),
    el("p", { class: "muted" }, el("b", {}, formatCount(worker.in_flight)), " in flight, ",
      el("span", { class: isOtherVersion ? "warn-text" : "" }, `version ${worker.version}`), ", started ", relativeTime(worker.started_at)));
}
