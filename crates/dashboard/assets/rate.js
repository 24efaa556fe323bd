// Deliveries per second over the last minute, counted from the received notices.

import { serverNowMs } from "./clock.js";

const SECONDS_MAX = 60;
// The displayed rate is the average of the last seconds.
const AVERAGE_SECONDS = 5;

/** Notices by second. @type {Map<number, number>} */
const delivered = new Map();
/** @type {Map<number, number>} */
const failed = new Map();

/** Since when the stream has been open, by the clock of this page; null while it is not. @type {number | null} */
let openSinceMs = null;

/** Takes whether the stream is open. Nothing is known of the time in which it was not. @param {boolean} isOpen */
export function followConnection(isOpen) {
  openSinceMs = isOpen ? openSinceMs ?? performance.now() : null;
}

/** Counts notices in the seconds of their timestamps, even if they arrive late. @param {Api.Notice[]} notices */
export function countNotices(notices) {
  for (const notice of notices) {
    const second = Math.floor(Date.parse(notice.at) / 1000);
    const counts = countsOf(notice);
    if (counts !== null && !Number.isNaN(second)) counts.set(second, (counts.get(second) ?? 0) + 1);
  }
  const end = Math.floor(serverNowMs() / 1000);
  for (const counts of [delivered, failed]) {
    for (const second of counts.keys()) if (Math.abs(end - second) > SECONDS_MAX) counts.delete(second);
  }
}

/** A cancelled event and a disabled endpoint are neither delivered nor failed. @param {Api.Notice} notice */
function countsOf({ type, failure_kind: kind }) {
  if (type === "WebhookDeliveredEvent") return delivered;
  return type === "WebhookDLQEvent" && kind !== "cancelled" ? failed : null;
}

/**
 * Returns the counts of the last minute, oldest first, without the current second: it is incomplete and would look like a drop.
 * The rate is null while the stream is not open.
 * @returns {{ delivered: number[], failed: number[], rate: number | null, peak: number, isOpen: boolean }}
 */
export function lastMinute() {
  const end = Math.floor(serverNowMs() / 1000);
  const openMs = openSinceMs === null ? 0 : performance.now() - openSinceMs;
  const length = Math.min(SECONDS_MAX, Math.floor(openMs / 1000));
  const seconds = Array.from({ length }, (_, index) => end - length + index);
  const values = seconds.map((second) => delivered.get(second) ?? 0);
  const recent = values.slice(-AVERAGE_SECONDS);
  const rate = length < 2 ? null : recent.reduce((sum, value) => sum + value, 0) / recent.length;
  return { delivered: values, failed: seconds.map((second) => failed.get(second) ?? 0), rate, peak: Math.max(0, ...values), isOpen: openSinceMs !== null };
}
