// The charts of the overview, for a range that the user chooses.

import { createChart } from "./chart.js";
import { serverNowMs } from "./clock.js";
import { button, el } from "./dom.js";
import { formatCompact, formatMs, formatRate, lookUp } from "./format.js";
import { replaceQuery } from "./router.js";
import { onThemeChange } from "./theme.js";

/** @type {Record<string, number>} */
const RANGES = { "15m": 900, "1h": 3600, "6h": 21600, "24h": 86400, "7d": 604800, "30d": 2592000 };
const DEFAULT = "1h";
const POINTS_MAX = 5000;

/** @type {{ recolor: () => void } | null} */
let open = null;
onThemeChange(() => open?.recolor());

/** @param {string | null} initial @param {() => void} onRange called after the user has chosen another range */
export function createHistoryCharts(initial, onRange) {
  let range = initial !== null && Object.hasOwn(RANGES, initial) ? initial : DEFAULT;
  const buttons = Object.keys(RANGES).map((name) => button(name, () => choose(name), { "aria-pressed": String(name === range) }));
  const throughput = createChart({
    title: "Deliveries per second",
    isStacked: true,
    format: formatRate,
    series: [{ label: "delivered", color: "delivered" }, { label: "retried", color: "retried" }, { label: "failed", color: "failed" }],
  });
  const latency = createChart({
    title: "Latency of requests",
    format: formatMs,
    series: [{ label: "p50", color: "p50" }, { label: "p95", color: "p95" }, { label: "p99", color: "p99" }],
  });
  const backlog = createChart({ title: "Backlog", format: formatCompact, isCount: true, series: [{ label: "pending events", color: "delivered", filled: true }] });
  const dead = createChart({ title: "Dead letters", format: formatCompact, isCount: true, series: [{ label: "dead letters", color: "failed", filled: true }] });
  const charts = [throughput, latency, backlog, dead];
  const root = el("section", { class: "history-section", "aria-label": "History" },
    el("header", { class: "section-head" }, el("h2", {}, "History"), el("div", { class: "segments", role: "group", "aria-label": "Range" }, buttons)),
    el("div", { class: "charts" }, charts.map((chart) => chart.root)));
  const plots = /** @type {HTMLElement} */ (root.lastElementChild);

  /** @param {string} name */
  function choose(name) {
    range = name;
    buttons.forEach((element) => element.setAttribute("aria-pressed", String(element.textContent === name)));
    replaceQuery({ range: name === DEFAULT ? null : name });
    plots.setAttribute("aria-busy", "true");
    onRange();
  }

  open = { recolor: () => charts.forEach((chart) => chart.recolor()) };
  return {
    root,
    range: () => range,
    /** @param {Api.History} history */
    show(history) {
      const { times, points } = toSteps(history);
      const column = (/** @type {(point: Api.HistoryPoint) => number | null} */ valueOf) => points.map((point) => (point ? valueOf(point) ?? null : null));
      // The current step is incomplete, so its sums would look like a drop.
      const past = (/** @type {(point: Api.HistoryPoint) => number | null} */ valueOf) => [...column(valueOf).slice(0, -1), null];
      const perSecond = (/** @type {"delivered_count" | "retried_count" | "failed_count"} */ name) => past((point) => point[name] / history.step_seconds);
      throughput.show(times, [perSecond("delivered_count"), perSecond("retried_count"), perSecond("failed_count")]);
      latency.show(times, [past((point) => point.latency_p50_ms), past((point) => point.latency_p95_ms), past((point) => point.latency_p99_ms)]);
      backlog.show(times, [column((point) => point.pending_count)]);
      dead.show(times, [column((point) => point.dead_letter_count)]);
      plots.setAttribute("aria-busy", "false");
    },
    /** Hides the charts of a server without events. */
    setIdle(/** @type {boolean} */ value) {
      root.hidden = value;
    },
    close() {
      open = null;
      charts.forEach((chart) => chart.close());
    },
  };
}

/** Lays the points out on every step of the range and on the current one. A step without a point has null: no data is not zero. @param {Api.History} history */
function toSteps({ range, step_seconds: step, points }) {
  const seconds = points.map((point) => Math.floor(Date.parse(point.at) / 1000 / step) * step);
  const end = Math.max(Math.floor(serverNowMs() / 1000 / step) * step, ...seconds.slice(-1));
  const length = Math.min(Math.ceil((lookUp(RANGES, range, RANGES[DEFAULT])) / step), POINTS_MAX);
  const bySecond = new Map(points.map((point, index) => [seconds[index], point]));
  const times = Array.from({ length: length + 1 }, (_, index) => end - (length - index) * step);
  return { times, points: times.map((time) => bySecond.get(time) ?? null) };
}
