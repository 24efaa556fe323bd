// A line chart over time, drawn by uPlot: axes with units, a crosshair shared by all charts, and the values below it.

import { el, setText } from "./dom.js";
import { UNKNOWN } from "./format.js";

const HEIGHT = 176;
const DAY_SECONDS = 86400;
const COUNT_STEPS = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9].flatMap((power) => [1, 2, 5].map((digit) => digit * 10 ** power));

/** @typedef {(number | null)[]} Column one value for each time */
/**
 * @typedef {object} Series
 * @property {string} label
 * @property {string} color name of a colour, see `.c-…` in the style sheet
 * @property {boolean} [filled]
 */
/**
 * @param {{ title: string, series: Series[], format: (value: number) => string, isStacked?: boolean, isCount?: boolean }} options
 * With `isStacked`, each series is drawn on top of the ones before it. With `isCount`, the axis has whole numbers.
 */
export function createChart({ title, series, format, isStacked = false, isCount = false }) {
  const values = series.map(() => el("b", {}, UNKNOWN));
  const swatches = series.map(({ color }) => el("i", { class: `c-${color}` }));
  const at = el("span", { class: "at muted" });
  const legend = el("p", { class: "legend" }, series.map(({ label }, index) => el("span", {}, swatches[index], `${label} `, values[index])), at);
  const plot = el("div", { class: "plot", role: "img", tabindex: "0", "aria-label": title });
  const ink = { axis: el("i", { class: "c-axis" }), grid: el("i", { class: "c-grid" }) };
  const empty = el("p", { class: "empty", hidden: true }, "No data in this range yet.");
  const root = el("section", { class: "panel chart", "aria-label": title }, el("header", {}, el("h2", {}, title), legend), plot, empty, ink.axis, ink.grid);
  /** @type {any} */
  let uplot = null;
  /** @type {[number[], ...Column[]] | null} */
  let raw = null;
  /** @type {Column[] | null} */
  let drawn = null;

  /** @param {number[]} times in seconds @param {Column[]} columns one per series */
  function show(times, columns) {
    raw = [times, ...columns];
    const hasData = columns.some((column) => column.some((value) => value !== null));
    empty.hidden = hasData;
    drawn = isStacked ? [times, ...stack(columns)] : raw;
    if (uplot) uplot.setData(drawn);
    else create();
    showValues(uplot?.cursor.idx ?? null);
  }

  function create() {
    if (!raw || plot.clientWidth === 0) return;
    uplot?.destroy();
    uplot = new uPlot(optionsFor(plot.clientWidth), drawn, plot);
  }

  /** @param {number} width */
  function optionsFor(width) {
    const axis = { stroke: colorOf(ink.axis), font: "11px system-ui, sans-serif", grid: { stroke: colorOf(ink.grid), width: 1 }, ticks: { show: false } };
    const lines = series.map(({ label, filled }, index) => {
      const stroke = colorOf(swatches[index]);
      const fill = isStacked ? transparent(stroke, 0.4) : filled ? transparent(stroke, 0.14) : undefined;
      return { label, stroke, width: 1.5, fill, points: { show: false }, spanGaps: false };
    });
    // The last stacked series is the tallest. uPlot fills each one down to the next.
    const bands = isStacked ? series.slice(1).map((_, index) => ({ series: [index + 1, index + 2] })) : undefined;
    return {
      width,
      height: HEIGHT,
      series: [{}, ...(isStacked ? lines.reverse() : lines)],
      bands,
      axes: [
        { ...axis, values: (/** @type {any} */ _, /** @type {number[]} */ splits) => splits.map(formatTick(splits)), space: 64, size: 26 },
        { ...axis, values: (/** @type {any} */ _, /** @type {Column} */ splits) => splits.map((value) => (value === null ? "" : format(value))), size: 52, space: 34, ...(isCount ? { incrs: COUNT_STEPS } : {}) },
      ],
      scales: { x: { time: true }, y: { range: (/** @type {any} */ _, /** @type {number} */ __, /** @type {number} */ max) => [0, max > 0 ? max * 1.12 : isCount ? 4 : 1] } },
      legend: { show: false },
      cursor: { y: false, points: { size: 7 }, drag: { x: false, y: false }, sync: { key: "history" } },
      padding: [8, 10, 0, 0],
      hooks: { setCursor: [(/** @type {any} */ self) => showValues(self.cursor.idx ?? null)] },
    };
  }

  /** Shows the values below the crosshair, or the latest ones. @param {number | null} index */
  function showValues(index) {
    if (!raw) return;
    const [times, ...columns] = raw;
    const shown = index ?? lastIndex(columns);
    columns.forEach((column, position) => {
      const value = column[shown] ?? null;
      setText(values[position], value === null ? UNKNOWN : format(value));
    });
    setText(at, index === null ? "latest" : formatAt(times[index]));
    plot.setAttribute("aria-label", `${title}, ${at.textContent}: ${series.map(({ label }, position) => `${label} ${values[position].textContent}`).join(", ")}`);
  }

  // The arrow keys move the crosshair.
  plot.addEventListener("keydown", (/** @type {KeyboardEvent} */ press) => {
    const step = press.key === "ArrowLeft" ? -1 : press.key === "ArrowRight" ? 1 : 0;
    if (step === 0 || !uplot || !raw) return;
    press.preventDefault();
    const index = Math.min(Math.max((uplot.cursor.idx ?? lastIndex(raw.slice(1)) + 1) + step, 0), raw[0].length - 1);
    uplot.setCursor({ left: uplot.valToPos(raw[0][index], "x"), top: 10 });
  });

  const observer = new ResizeObserver(() => {
    if (!uplot) create();
    else if (plot.clientWidth > 0 && plot.clientWidth !== uplot.width) uplot.setSize({ width: plot.clientWidth, height: HEIGHT });
  });
  observer.observe(plot);

  return {
    root,
    show,
    /** Draws with the current colours. */
    recolor() {
      if (uplot) create();
    },
    close() {
      observer.disconnect();
      uplot?.destroy();
      uplot = null;
    },
  };
}

/** Sums the columns from the last to the first; returns the tallest first. A step without data stays one. @param {Column[]} columns */
function stack(columns) {
  /** @type {Column[]} */
  const sums = [];
  let below = columns[0].map(() => 0);
  for (const column of columns) {
    const sum = column.map((value, index) => (value === null ? null : value + below[index]));
    below = sum.map((value) => value ?? 0);
    sums.unshift(sum);
  }
  return sums;
}

/** @param {Column[]} columns */
function lastIndex(columns) {
  for (let index = columns[0].length - 1; index >= 0; index -= 1) if (columns.some((column) => column[index] !== null)) return index;
  return 0;
}

/** @param {Element} element */
function colorOf(element) {
  return getComputedStyle(element).color;
}

/** @param {string} color @param {number} opacity */
function transparent(color, opacity) {
  return color.replace(/^rgb\((.*)\)$/, `rgba($1, ${opacity})`);
}

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
const moment = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

/** @param {number[]} splits */
function formatTick(splits) {
  const step = splits.length > 1 ? splits[1] - splits[0] : 0;
  return (/** @type {number} */ seconds) => {
    const date = new Date(seconds * 1000);
    return step >= DAY_SECONDS || (date.getHours() === 0 && date.getMinutes() === 0) ? day.format(date) : clock.format(date);
  };
}

/** @param {number} seconds */
function formatAt(seconds) {
  return moment.format(seconds * 1000);
}
