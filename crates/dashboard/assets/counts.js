// The event counts at the top of the page, and warnings about the configuration.

import { byId, el, setText } from "./dom.js";
import { UNKNOWN, formatCount, formatSeconds } from "./format.js";

// Screen readers announce the counts no more often than this.
const ANNOUNCE_MS_MIN = 20000;

let announcedAt = 0;

export function showCounts(overview) {
  // Cancelled events need no repair.
  const broken = overview.failed_count - overview.cancelled_count;
  const oldest = overview.oldest_pending_age_seconds;
  const texts = {
    pending: formatCount(overview.pending_count),
    ready: formatCount(overview.pending_ready_count),
    retrying: formatCount(overview.retrying_count),
    failed: formatCount(broken),
    delivered: formatCount(overview.delivered_count),
    oldest: Number.isFinite(oldest) ? formatSeconds(oldest) : UNKNOWN,
  };
  for (const [id, text] of Object.entries(texts)) {
    const element = byId(id);
    if (element.textContent === text) continue;
    element.replaceChildren(...text.split(/( ?[a-z]+ ?)/).map((part) => (/[a-z]/.test(part) ? el("small", {}, part) : part)));
    element.className = text === "0" || text === UNKNOWN ? "zero" : /^[\d,]{10,}$/.test(text) ? "long" : "";
  }
  byId("counts").setAttribute("aria-busy", "false");
  byId("counts").classList.remove("outdated");
  document.title = broken > 0 ? `${formatCount(broken)} failed · Posthaste` : "Posthaste";
  announce(`${texts.pending} pending, ${texts.retrying} retrying, ${texts.failed} failed, ${texts.delivered} delivered.`);
  showWarnings(overview.warnings ?? []);
}

/** Grays the counts out after they could not be refreshed. */
export function markCountsOutdated() {
  byId("counts").classList.add("outdated");
}

function announce(summary) {
  if (Date.now() - announcedAt < ANNOUNCE_MS_MIN) return;
  announcedAt = Date.now();
  setText(byId("announcement"), summary);
}

/** Shows the API's warnings about settings that are unsafe in production. */
function showWarnings(texts) {
  const banner = byId("warnings");
  if (banner.dataset.texts === texts.join("\n")) return;
  banner.dataset.texts = texts.join("\n");
  banner.hidden = texts.length === 0;
  banner.replaceChildren(...texts.map((text) => el("p", {}, el("strong", {}, "Unsafe setting."), " ", text)));
}
