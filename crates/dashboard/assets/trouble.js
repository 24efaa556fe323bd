// States of destinations in words, and the destinations that need attention.

import { createElementCache, el, panel, setText, updateChildren } from "./dom.js";
import { countdown, destinationUrl, formatCount, formatAge, formatExact, formatMs, formatPercent, lookUp, pill, relativeTime } from "./format.js";
import { hashOf } from "./router.js";

/** The states that need attention, worst first. */
export const TROUBLE_STATES = ["circuit_open", "failing", "disabled", "paused"];
const SHOWN_MAX = 8;
/** @type {Record<string, [string, string]>} the word and the colour of a state */
const WORDS = { circuit_open: ["circuit open", "bad"], failing: ["failing", "warn"], disabled: ["disabled", "bad"], paused: ["paused", "warn"], ok: ["ok", "ok"] };
/** @type {Record<string, string>} */
const DISABLE_REASONS = { manual: "by hand", gone: "because the receiver answered 410 Gone", failing: "because it failed for too long" };

/** @param {{ state: string }} destination */
export function statePill({ state }) {
  const [word, color] = lookUp(WORDS, state, [state, ""]);
  return pill(word, color);
}

/** Says in words why a destination is in its state and what happens next. @param {Api.Destination} destination */
export function stateSentence(destination) {
  const { state, since, next_probe_at: probe, paused_until: until, failing_since: failing, disabled, reason } = destination;
  const parts = [];
  if (state === "circuit_open") {
    parts.push("Held after repeated failures", since ? [", since ", relativeTime(since)] : [], probe ? [". Next probe ", countdown(probe)] : []);
  } else if (state === "paused") {
    parts.push(capitalized(reason ?? "paused"), since ? [", since ", relativeTime(since)] : [], until ? [". Ends ", countdown(until)] : ". Ends when an operator resumes it");
  } else if (state === "disabled") {
    parts.push("Disabled ", disableReason(disabled?.reason ?? ""), disabled?.at ? [", ", relativeTime(disabled.at)] : []);
  } else if (state === "failing") {
    parts.push("Still sent, but the last attempts failed", failing ? [", since ", relativeTime(failing)] : []);
  } else {
    parts.push("Events are sent");
  }
  return el("span", { class: "sentence", title: since ? formatExact(since) : null }, parts.flat(2), ".");
}

/** Says why an endpoint is disabled. @param {string} reason */
export function disableReason(reason) {
  return lookUp(DISABLE_REASONS, reason, reason);
}

/** Says how many events wait, and for how long. @param {Api.Destination} destination */
export function backlogText({ pending_count: count, pending_count_capped: capped, oldest_pending_age_seconds: age }) {
  if (!count) return "none waiting";
  return `${formatCount(count)}${capped ? "+" : ""} waiting${age === null ? "" : `, oldest ${formatAge(age)}`}`;
}

/** How the last requests ended, and how long they took; null if no worker has sent any. @param {Api.Destination} destination */
export function recentText({ failure_ratio: ratio, latency_ms: ms }) {
  return Number.isFinite(ratio) ? `${formatPercent(Number(ratio))} failed, ${formatMs(ms)}` : null;
}

export function createTroublePanel() {
  const total = el("span", { class: "muted" });
  const root = panel("Destinations in trouble", total, el("a", { class: "end", href: hashOf(["destinations"]) }, "All destinations"));
  const rows = el("ul", { class: "plain-list" });
  const empty = el("p", { class: "empty" }, "Loading…");
  root.append(rows, empty);
  const cache = createElementCache(row);
  return {
    root,
    /** @param {Api.Trouble} trouble */
    show({ counts, worst }) {
      const destinations = worst.slice(0, SHOWN_MAX);
      const count = counts.reduce((sum, state) => sum + state.count, 0);
      setText(total, count > destinations.length ? `${formatCount(count)}${counts.some((state) => state.is_capped) ? "+" : ""}, the longest backlogs first` : "");
      empty.hidden = destinations.length > 0;
      empty.textContent = "Every destination accepts its events.";
      updateChildren(rows, destinations.map((destination) => cache.get(destination.destination_id, JSON.stringify(destination), destination)));
      cache.retain(destinations.map((destination) => destination.destination_id));
    },
  };
}

/** @param {Api.Destination} destination */
function row(destination) {
  return el("li", { class: "row" },
    el("a", { class: "cover", href: hashOf(["destinations", destination.destination_id]), "data-open": true }, destinationUrl(destination.url)),
    statePill(destination),
    el("p", { class: "muted" }, stateSentence(destination), " ", backlogText(destination), "."),
    destination.last_error ? el("p", { class: "muted clip", title: destination.last_error }, destination.last_error) : null);
}

/** @param {string} text */
function capitalized(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
