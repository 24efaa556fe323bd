// The navigation: which view is open, and how many events need attention. Also tells screen readers the counts.

import { byId, markOpenView, setText } from "./dom.js";
import { formatCompact, formatCount } from "./format.js";

// Screen readers announce the counts no more often than this.
const ANNOUNCE_MS_MIN = 20000;
let announcedAt = 0;

/** @param {string} name the open view @param {Api.Overview | null} overview */
export function showNavigation(name, overview) {
  markOpenView(name);
  if (!overview) return;
  showBadge(byId("nav-failed"), overview.failed_count - overview.cancelled_count, "need a decision");
}

/** Shows how many operations run. @param {number} count */
export function showRunningOperations(count) {
  showBadge(byId("nav-running"), count, "running");
}

/** @param {HTMLElement} badge @param {number} count @param {string} meaning */
function showBadge(badge, count, meaning) {
  badge.hidden = !(count > 0);
  setText(badge, formatCompact(count));
  badge.title = `${formatCount(count)} ${meaning}`;
}

/** @param {Api.Overview} overview */
export function announceCounts(overview) {
  if (Date.now() - announcedAt < ANNOUNCE_MS_MIN) return;
  announcedAt = Date.now();
  const failed = overview.failed_count - overview.cancelled_count;
  setText(byId("announcement"), `${formatCount(overview.pending_count)} pending, ${formatCount(overview.retrying_count)} retrying, `
    + `${formatCount(failed)} failed, ${formatCount(overview.delivered_count)} delivered.`);
}
