// Deliveries per second over the last minute, counted from the received notices.

import { byId, setText } from "./dom.js";
import { serverNowMs } from "./clock.js";
import { formatCount } from "./format.js";

const SECONDS_MAX = 60;
// The displayed rate is the average of the last seconds.
const AVERAGE_SECONDS = 5;
const WIDTH = 240;
const HEIGHT = 36;
const svg = byId("sparkline");

// Notices by second.
const delivered = new Map();
const failed = new Map();
const area = addPath("area");
const line = addPath("line");
const ticks = addPath("ticks");

/** Counts a notice in the second of its timestamp, even if it arrives late. */
export function countNotice(notice) {
  const second = Math.floor(Date.parse(notice.at) / 1000);
  if (Number.isNaN(second)) return;
  const counts = notice.type === "WebhookDeliveredEvent" ? delivered : failed;
  counts.set(second, (counts.get(second) ?? 0) + 1);
}

/** Called once a second. Omits the current second: it is incomplete and would look like a drop. */
export function drawRate() {
  const end = Math.floor(serverNowMs() / 1000);
  for (const counts of [delivered, failed]) {
    for (const second of counts.keys()) if (Math.abs(end - second) > SECONDS_MAX) counts.delete(second);
  }
  // There is no data from before the page was opened.
  const length = Math.min(SECONDS_MAX, Math.floor(performance.now() / 1000));
  if (length < 2) return;
  const seconds = Array.from({ length }, (_, index) => end - length + index);
  const values = seconds.map((second) => delivered.get(second) ?? 0);
  const peak = Math.max(...values);
  const last = values.slice(-AVERAGE_SECONDS);
  const average = last.reduce((sum, value) => sum + value, 0) / last.length;

  const x = (index) => (WIDTH - ((length - 1 - index) * WIDTH) / (SECONDS_MAX - 1)).toFixed(1);
  const y = (value) => (HEIGHT - 1 - (value / Math.max(peak, 1)) * (HEIGHT - 4)).toFixed(1);
  const points = values.map((value, index) => `${x(index)} ${y(value)}`);
  line.setAttribute("d", "M" + points.join("L"));
  area.setAttribute("d", `M${x(0)} ${HEIGHT}L${points.join("L")}L${WIDTH} ${HEIGHT}Z`);
  const failures = seconds.map((second, index) => (failed.has(second) ? `M${x(index)} ${HEIGHT}v-7` : ""));
  ticks.setAttribute("d", failures.join(""));

  setText(byId("rate"), average >= 10 || average === 0 ? formatCount(Math.round(average)) : average.toFixed(1));
  byId("rate").classList.toggle("zero", average === 0);
  setText(byId("peak"), peak > 0 ? `peak ${formatCount(peak)} in 60 s` : "last 60 s");
}

function addPath(className) {
  const path = document.createElementNS(svg.namespaceURI, "path");
  path.setAttribute("class", className);
  path.setAttribute("vector-effect", "non-scaling-stroke");
  svg.append(path);
  return path;
}
