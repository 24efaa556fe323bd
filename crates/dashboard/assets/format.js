// Numbers and times as people read them.

import { el, setText } from "./dom.js";
import { nowMs } from "./clock.js";

export const UNKNOWN = "–";

const grouped = new Intl.NumberFormat("en");
const absolute = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];

export function count(value) {
  return Number.isFinite(value) ? grouped.format(value) : UNKNOWN;
}

/** A length of time in its two largest units. */
export function span(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const first = UNITS.findIndex(([, size]) => whole >= size);
  if (first === -1) return "0 s";
  const [unit, size] = UNITS[first];
  const text = `${grouped.format(Math.floor(whole / size))} ${unit}`;
  const next = UNITS[first + 1];
  const rest = next ? Math.floor((whole % size) / next[1]) : 0;
  return rest > 0 ? `${text} ${rest} ${next[0]}` : text;
}

/** What one request took. */
export function took(ms) {
  if (!Number.isFinite(ms)) return UNKNOWN;
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(ms < 10000 ? 2 : 1)} s`;
}

/** A moment as a distance from now, the exact time on demand. */
export function moment(at) {
  const ms = Date.parse(at);
  if (Number.isNaN(ms)) return el("span", {}, at ?? UNKNOWN);
  return el("time", { datetime: at, title: absolute.format(ms) }, distance(ms));
}

/** Brings every moment on the page up to date. */
export function renewMoments() {
  for (const time of document.querySelectorAll("time[datetime]")) {
    setText(time, distance(Date.parse(time.dateTime)));
  }
}

/** In one unit: a list is read by size, not to the second. */
function distance(ms) {
  const seconds = (nowMs() - ms) / 1000;
  const away = Math.abs(seconds);
  if (away < 1) return "now";
  const [unit, size] = UNITS.find(([, size]) => away >= size);
  const text = `${Math.floor(away / size)} ${unit}`;
  return seconds > 0 ? `${text} ago` : `in ${text}`;
}

/** A destination, its host told apart from the rest; one that cannot be read stays whole. */
export function destination(url) {
  const parts = /^([a-z][a-z0-9+.-]*:\/\/)([^/?#]+)(.*)$/i.exec(url ?? "");
  const shown = parts
    ? [el("span", { class: "muted" }, parts[1]), el("b", {}, parts[2]), el("span", { class: "muted" }, parts[3])]
    : [url ?? UNKNOWN];
  return el("span", { class: "url", title: url }, ...shown);
}
