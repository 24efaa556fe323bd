// The outbox at a glance.

import { byId, el, setText } from "./dom.js";
import { UNKNOWN, count, span } from "./format.js";

// Counts may change every second; whoever listens to the page hears of it at this pace.
const SAID_MS_MIN = 20000;

let saidAt = 0;

export function showCounts(overview) {
  const failed = overview.failed_count;
  const oldest = overview.oldest_pending_age_seconds;
  const shown = {
    pending: count(overview.pending_count),
    ready: count(overview.pending_ready_count),
    retrying: count(overview.retrying_count),
    failed: count(failed),
    delivered: count(overview.delivered_count),
    oldest: Number.isFinite(oldest) ? span(oldest) : UNKNOWN,
  };
  for (const [id, text] of Object.entries(shown)) {
    const place = byId(id);
    if (place.textContent === text) continue;
    place.replaceChildren(...text.split(/( ?[a-z]+ ?)/).map((part) => (/[a-z]/.test(part) ? el("small", {}, part) : part)));
    place.className = text === "0" || text === UNKNOWN ? "zero" : /^[\d,]{10,}$/.test(text) ? "long" : "";
  }
  byId("counts").setAttribute("aria-busy", "false");
  byId("counts").classList.remove("old");
  document.title = failed > 0 ? `${count(failed)} failed · Posthaste` : "Posthaste";
  say(`${shown.pending} pending, ${shown.retrying} retrying, ${shown.failed} failed, ${shown.delivered} delivered.`);
  showWarnings(overview.warnings);
}

/** What is shown may no longer be so. */
export function outdateCounts() {
  byId("counts").classList.add("old");
}

function say(summary) {
  if (Date.now() - saidAt < SAID_MS_MIN) return;
  saidAt = Date.now();
  setText(byId("counts-said"), summary);
}

/** Settings that are unsafe outside of tests, in the words of the API. */
function showWarnings(warnings) {
  const texts = Array.isArray(warnings) ? warnings.filter((text) => typeof text === "string") : [];
  const strip = byId("warnings");
  if (strip.dataset.shown === texts.join("\n")) return;
  strip.dataset.shown = texts.join("\n");
  strip.hidden = texts.length === 0;
  strip.replaceChildren(...texts.map((text) => el("p", {}, el("strong", {}, "Unsafe setting."), " ", text)));
}
