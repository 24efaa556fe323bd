// States of destinations in words, and the destinations that need attention.

import { el, panel, updateChildren, createElementCache } from "./dom.js";
import { countdown, destinationUrl, formatCount, formatAge, formatExact, pill, relativeTime } from "./format.js";
import { hashOf } from "./router.js";

/** The states that need attention, worst first. */
export const TROUBLE_STATES = ["circuit_open", "failing", "disabled", "paused"];
/** @type {Record<string, [string, string]>} the word and the colour of a state */
const WORDS = { circuit_open: ["circuit open", "bad"], failing: ["failing", "warn"], disabled: ["disabled", "bad"], paused: ["paused", "warn"], ok: ["ok", "ok"] };
const DISABLE_REASONS = { manual: "by hand", gone: "because the receiver answered 410 Gone", failing: "because it failed for too long" };

export function statePill({ state }) {
  const [word, color] = WORDS[state] ?? [state, ""];
  return pill(word, color);
}

/** Says in words why a destination is in its state and what happens next. */
export function stateSentence(destination) {
  const { state, since, next_probe_at: probe, paused_until: until, failing_since: failing, disabled, reason } = destination;
  const parts = [];
  if (state === "circuit_open") {
    parts.push("Held after repeated failures", since ? [", since ", relativeTime(since)] : [], probe ? [". Next probe ", countdown(probe)] : []);
  } else if (state === "paused") {
    parts.push(capitalized(reason ?? "paused"), since ? [", since ", relativeTime(since)] : [], until ? [". Ends ", countdown(until)] : ". Ends when an operator resumes it");
  } else if (state === "disabled") {
    parts.push("Disabled ", DISABLE_REASONS[disabled?.reason] ?? disabled?.reason ?? "", disabled?.at ? [", ", relativeTime(disabled.at)] : []);
  } else if (state === "failing") {
    parts.push("Still sent, but the last attempts failed", failing ? [", since ", relativeTime(failing)] : []);
  } else {
    parts.push("Events are sent");
  }
  return el("span", { class: "sentence", title: since ? formatExact(since) : null }, parts.flat(2), ".");
}

/** Says how many events wait, and for how long. */
export function backlogText({ pending_count: count, pending_count_capped: capped, oldest_pending_age_seconds: age }) {
  if (!count) return "none waiting";
  return `${formatCount(count)}${capped ? "+" : ""} waiting${Number.isFinite(age) ? `, oldest ${formatAge(age)}` : ""}`;
}

export function createTroublePanel() {
  const root = panel("Destinations in trouble", el("a", { class: "end", href: hashOf(["destinations"]) }, "All destinations"));
  const rows = el("ul", { class: "plain-list" });
  const empty = el("p", { class: "empty" }, "Loading…");
  root.append(rows, empty);
  const cache = createElementCache(row);
  return {
    root,
    show(destinations) {
      empty.hidden = destinations.length > 0;
      empty.textContent = "Every destination accepts its events.";
      updateChildren(rows, destinations.map((destination) => cache.get(destination.destination_id, JSON.stringify(destination), destination)));
    },
  };
}

function row(destination) {
  return el("li", { class: "row" },
    el("a", { class: "cover", href: hashOf(["destinations", destination.destination_id]), "data-open": true }, destinationUrl(destination.url)),
    statePill(destination),
    el("p", { class: "muted" }, stateSentence(destination), " ", backlogText(destination), "."),
    destination.last_error ? el("p", { class: "muted clip", title: destination.last_error }, destination.last_error) : null);
}

function capitalized(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
