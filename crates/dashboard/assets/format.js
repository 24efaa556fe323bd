// Formats numbers, times and URLs for people.

import { el, setText } from "./dom.js";
import { serverNowMs } from "./clock.js";
import { hashOf } from "./router.js";

/** @typedef {string | null | undefined} Time a time as the API writes it, if it is known */

export const UNKNOWN = "–";

const grouped = new Intl.NumberFormat("en");
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const absolute = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
const timeOfDay = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const dayAndTime = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
/** @type {[string, number][]} */
const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];

/** @param {any} value */
export function formatCount(value) {
  return Number.isFinite(value) ? grouped.format(value) : UNKNOWN;
}

/** Formats a number for an axis or a badge: 1,234 becomes 1.2K. @param {any} value */
export function formatCompact(value) {
  return Number.isFinite(value) ? compact.format(value) : UNKNOWN;
}

/** Formats events per second. @param {any} value */
export function formatRate(value) {
  if (!Number.isFinite(value)) return UNKNOWN;
  return value >= 10 || value === 0 ? grouped.format(Math.round(value)) : value.toFixed(value < 1 ? 2 : 1);
}

/** Formats a duration in its two largest units. @param {number} seconds */
export function formatSeconds(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const first = UNITS.findIndex(([, size]) => whole >= size);
  if (first === -1) return "0 s";
  const [unit, size] = UNITS[first];
  const text = `${grouped.format(Math.floor(whole / size))} ${unit}`;
  const next = UNITS[first + 1];
  const rest = next ? Math.floor((whole % size) / next[1]) : 0;
  return rest > 0 ? `${text} ${rest} ${next[0]}` : text;
}

/** Formats a duration in its largest unit. @param {number} seconds */
export function formatAge(seconds) {
  const [unit, size] = UNITS.find(([, size]) => seconds >= size) ?? ["s", 1];
  return `${grouped.format(Math.max(0, Math.floor(seconds / size)))} ${unit}`;
}

/** Formats a part of all. Only none and all of them are shown as 0 % and 100 %. @param {number} ratio from 0 to 1 */
export function formatPercent(ratio) {
  const percent = ratio * 100;
  if (percent > 0 && percent < 1) return "< 1 %";
  return `${percent > 99 && percent < 100 ? 99 : Math.round(percent)} %`;
}

/** Formats the duration of one request. @param {any} ms */
export function formatMs(ms) {
  if (!Number.isFinite(ms)) return UNKNOWN;
  if (ms < 10 && !Number.isInteger(ms)) return `${ms.toFixed(1)} ms`;
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(ms < 10000 ? 2 : 1)} s`;
}

/** Formats the exact time. @param {Time} at */
export function formatExact(at) {
  const ms = Date.parse(at ?? "");
  return Number.isNaN(ms) ? String(at ?? UNKNOWN) : absolute.format(ms);
}

/** Creates an element with a time relative to now. Its tooltip is the exact time. @param {Time} at */
export function relativeTime(at) {
  return timeElement(at, "relative", formatRelative);
}

/** Creates an element that counts down to a time, in two units. @param {Time} at */
export function countdown(at) {
  return timeElement(at, "countdown", formatCountdown);
}

/** @param {Time} at @param {keyof typeof FORMATS} kind @param {(ms: number) => string} format */
function timeElement(at, kind, format) {
  const ms = Date.parse(at ?? "");
  if (Number.isNaN(ms)) return el("span", {}, at ?? UNKNOWN);
  return el("time", { datetime: at, title: absolute.format(ms), "data-kind": kind }, format(ms));
}

/** Creates nodes of a sentence of the API, whose timestamps become readable times. @param {Time} text */
export function sentenceWithTimes(text) {
  return String(text ?? "").split(/(\d{4}-\d\d-\d\dT[\d:.]+Z)/).map((part) =>
    (/^\d{4}-\d\d-\d\dT/.test(part) ? timeElement(part, "both", formatBoth) : part));
}

/** Updates every relative time on the page. */
export function updateTimes() {
  for (const time of /** @type {NodeListOf<HTMLTimeElement>} */ (document.querySelectorAll("time[data-kind]"))) {
    setText(time, FORMATS[/** @type {keyof typeof FORMATS} */ (time.dataset.kind)](Date.parse(time.dateTime)));
  }
}

/** Uses one unit only: in a list the magnitude matters, not the seconds. @param {number} ms */
function formatRelative(ms) {
  const seconds = (serverNowMs() - ms) / 1000;
  const distance = Math.abs(seconds);
  if (distance < 1) return "now";
  const [unit, size] = UNITS.find(([, size]) => distance >= size) ?? ["s", 1];
  const text = `${Math.floor(distance / size)} ${unit}`;
  return seconds > 0 ? `${text} ago` : `in ${text}`;
}

/** The time of day, with the date unless it is today's. @param {number} ms */
function formatClock(ms) {
  return (new Date(ms).toDateString() === new Date().toDateString() ? timeOfDay : dayAndTime).format(ms);
}

/** @param {number} ms */
function formatBoth(ms) {
  return `${formatClock(ms)} (${formatRelative(ms)})`;
}

/** @param {number} ms */
function formatCountdown(ms) {
  const seconds = (ms - serverNowMs()) / 1000;
  return seconds <= 0 ? "due now" : `in ${formatSeconds(Math.ceil(seconds))}`;
}

const FORMATS = { relative: formatRelative, countdown: formatCountdown, both: formatBoth };

/** Creates an element with a URL whose host is emphasized. @param {string | null | undefined} url */
export function destinationUrl(url) {
  const parts = /^([a-z][a-z0-9+.-]*:\/\/)([^/?#]+)(.*)$/i.exec(url ?? "");
  const shown = parts
    ? [el("span", { class: "muted" }, parts[1]), el("b", {}, parts[2]), el("span", { class: "muted" }, parts[3])]
    : [url ?? UNKNOWN];
  return el("span", { class: "url", title: url }, ...shown);
}

/** A link that keeps its last characters when shortened: ids of the same time begin alike. @param {string} eventId */
export function eventLink(eventId) {
  return el("a", { class: "id", href: hashOf(["events", eventId]), title: eventId, "data-open": true },
    el("span", {}, eventId.slice(0, -6)), el("span", {}, eventId.slice(-6)));
}

/** The word and the colour of an event's status. A cancelled event is no alarm: an operator wanted it. @param {{ delivery_status: string, failure_kind?: string | null, attempts?: number }} event */
export function statusPill({ delivery_status: status, failure_kind: kind, attempts = 0 }) {
  if (status === "delivered") return pill("delivered", "ok");
  if (status === "pending") return attempts > 0 ? pill("retrying", "warn") : pill("pending", "");
  return pill(kind ?? "failed", kind === "cancelled" ? "" : "bad");
}

/**
 * Returns the entry of a table for a text of the API, but nothing that every object inherits.
 * @template T @param {Record<string, T>} table @param {string} text @param {T} fallback
 */
export function lookUp(table, text, fallback) {
  return Object.hasOwn(table, text) ? table[text] : fallback;
}

/** @param {string} text @param {string} color `ok`, `warn`, `bad` or empty */
export function pill(text, color) {
  return el("span", { class: `pill ${color}` }, text);
}
