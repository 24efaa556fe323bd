// The latest notices. Thousands may arrive per second, so the list is drawn at intervals.

import { byId, el, eventLink, setText, updateChildren } from "./dom.js";
import { formatCount, relativeTime } from "./format.js";

const NOTICES_MAX = 20;
const DRAW_MS = 400;

let latest = [];
let receivedCount = 0;
let drawnCount = 0;
const rows = new WeakMap();
const list = byId("notices");

export function addNotice(notice) {
  latest.unshift(notice);
  if (latest.length > NOTICES_MAX * 2) latest.length = NOTICES_MAX;
  receivedCount += 1;
}

/** Draws the list, unless the pointer or the focus is on it: rows must not move then. */
function draw() {
  const newCount = receivedCount - drawnCount;
  const paused = list.matches(":hover, :focus-within");
  setText(byId("notices-status"), paused && newCount > 0 ? `${formatCount(newCount)} more` : "newest first");
  if (paused || newCount === 0) return;
  drawnCount = receivedCount;
  byId("no-notices").hidden = true;
  updateChildren(list, latest.slice(0, NOTICES_MAX).map(rowOf));
}

function rowOf(notice) {
  let row = rows.get(notice);
  if (!row) {
    row = createRow(notice);
    rows.set(notice, row);
  }
  return row;
}

/** The word and the colour of a notice. A cancelled event is no alarm: an operator wanted it. */
function statusOf(notice) {
  if (notice.type === "WebhookDeliveredEvent") return ["delivered", "ok"];
  if (notice.type !== "WebhookDLQEvent") return [String(notice.type), ""];
  return [notice.failure_kind ?? "failed", notice.failure_kind === "cancelled" ? "" : "bad"];
}

function createRow(notice) {
  const [status, color] = statusOf(notice);
  const attempts = notice.attempts > 1 ? `×${formatCount(notice.attempts)}` : "";
  return el("li", {},
    el("span", { class: `status ${color}` }, status),
    eventLink(notice.webhook_delivery_id),
    el("span", { class: "muted", title: attempts && `${formatCount(notice.attempts)} attempts` }, attempts),
    relativeTime(notice.at));
}

setInterval(draw, DRAW_MS);
