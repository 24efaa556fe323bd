// Formats numbers, times and URLs for people.

import { el, setText } from "./dom.js";
import { serverNowMs } from "./clock.js";

export const UNKNOWN = "–";

const grouped = new Intl.NumberFormat("en");
const absolute = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];

export function formatCount(value) {
  return Number.isFinite(value) ? grouped.format(value) : UNKNOWN;
}

/** Formats a duration in its two largest units. */
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

/** Formats the duration of one request. */
export function formatMs(ms) {
  if (!Number.isFinite(ms)) return UNKNOWN;
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(ms < 10000 ? 2 : 1)} s`;
}

/** Creates an element with a time relative to now. Its tooltip is the exact time. */
export function relativeTime(at) {
  const ms = Date.parse(at);
  if (Number.isNaN(ms)) return el("span", {}, at ?? UNKNOWN);
  return el("time", { datetime: at, title: absolute.format(ms) }, formatRelative(ms));
}

/** Updates every relative time on the page. */
export function updateTimes() {
  for (const time of document.querySelectorAll("time[datetime]")) {
    setText(time, formatRelative(Date.parse(time.dateTime)));
  }
}

/** Uses one unit only: in a list the magnitude matters, not the seconds. */
function formatRelative(ms) {
  const seconds = (serverNowMs() - ms) / 1000;
  const distance = Math.abs(seconds);
  if (distance < 1) return "now";
  const [unit, size] = UNITS.find(([, size]) => distance >= size);
  const text = `${Math.floor(distance / size)} ${unit}`;
  return seconds > 0 ? `${text} ago` : `in ${text}`;
}

/** Creates an element with a URL whose host is emphasized. */
export function destinationUrl(url) {
  const parts = /^([a-z][a-z0-9+.-]*:\/\/)([^/?#]+)(.*)$/i.exec(url ?? "");
  const shown = parts
    ? [el("span", { class: "muted" }, parts[1]), el("b", {}, parts[2]), el("span", { class: "muted" }, parts[3])]
    : [url ?? UNKNOWN];
  return el("span", { class: "url", title: url }, ...shown);
}
