// Deliveries per second over the last minute, from the notices that arrived.

import { byId, setText } from "./dom.js";
import { nowMs } from "./clock.js";
import { count } from "./format.js";

const SECONDS_MAX = 60;
// The rate that is written out: long enough to be steady, short enough to be now.
const SECONDS_OF_RATE = 5;
const WIDTH = 240;
const HEIGHT = 36;
const SVG = byId("sparkline").namespaceURI;

const delivered = new Map();
const failed = new Map();
const area = shape("area");
const line = shape("line");
const ticks = shape("ticks");

/** By the time of the notice: what arrives late, after a break, still belongs to its second. */
export function countNotice(notice) {
  const second = Math.floor(Date.parse(notice.at) / 1000);
  if (Number.isNaN(second)) return;
  const counts = notice.type === "WebhookDeliveredEvent" ? delivered : failed;
  counts.set(second, (counts.get(second) ?? 0) + 1);
}

/** Called once a second. The second that is still running is not drawn: it would always look like a fall. */
export function drawRate() {
  const end = Math.floor(nowMs() / 1000);
  for (const counts of [delivered, failed]) {
    for (const second of counts.keys()) if (Math.abs(end - second) > SECONDS_MAX) counts.delete(second);
  }
  // Of the time before the page was opened nothing is known.
  const known = Math.min(SECONDS_MAX, Math.floor(performance.now() / 1000));
  if (known < 2) return;
  const seconds = Array.from({ length: known }, (_, index) => end - known + index);
  const values = seconds.map((second) => delivered.get(second) ?? 0);
  const peak = Math.max(...values);
  const last = values.slice(-SECONDS_OF_RATE);
  const recent = last.reduce((sum, value) => sum + value, 0) / last.length;

  const x = (index) => WIDTH - ((known - 1 - index) * WIDTH) / (SECONDS_MAX - 1);
  const y = (value) => HEIGHT - 1 - (value / Math.max(peak, 1)) * (HEIGHT - 4);
  const points = values.map((value, index) => `${x(index).toFixed(1)} ${y(value).toFixed(1)}`);
  line.setAttribute("d", "M" + points.join("L"));
  area.setAttribute("d", `M${x(0).toFixed(1)} ${HEIGHT}L${points.join("L")}L${WIDTH} ${HEIGHT}Z`);
  const fell = seconds.map((second, index) => (failed.has(second) ? `M${x(index).toFixed(1)} ${HEIGHT}v-7` : ""));
  ticks.setAttribute("d", fell.join(""));

  setText(byId("rate"), recent >= 10 || recent === 0 ? count(Math.round(recent)) : recent.toFixed(1));
  byId("rate").classList.toggle("zero", recent === 0);
  setText(byId("peak"), peak > 0 ? `peak ${count(peak)} in 60 s` : "last 60 s");
}

function shape(name) {
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("class", name);
  path.setAttribute("vector-effect", "non-scaling-stroke");
  byId("sparkline").append(path);
  return path;
}
