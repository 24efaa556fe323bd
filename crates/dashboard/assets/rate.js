// Deliveries per second over the last minute, counted from the received notices.

import { serverNowMs } from "./clock.js";

const SECONDS_MAX = 60;
// The displayed rate is the average of the last seconds.
const AVERAGE_SECONDS = 5;

/** Notices by second. */
const delivered = new Map();
const failed = new Map();

/** Counts notices in the seconds of their timestamps, even if they arrive late. */
export function countNotices(notices) {
  for (const { at, type } of notices) {
    const second = Math.floor(Date.parse(at) / 1000);
    if (Number.isNaN(second)) continue;
    const counts = type === "WebhookDeliveredEvent" ? delivered : failed;
    counts.set(second, (counts.get(second) ?? 0) + 1);
  }
  const end = Math.floor(serverNowMs() / 1000);
  for (const counts of [delivered, failed]) {
    for (const second of counts.keys()) if (Math.abs(end - second) > SECONDS_MAX) counts.delete(second);
  }
}

/**
 * Returns the counts of the last minute, oldest first, without the current second: it is incomplete and would look like a drop.
 * @returns {{ delivered: number[], failed: number[], rate: number | null, peak: number }}
 */
export function lastMinute() {
  const end = Math.floor(serverNowMs() / 1000);
  // There is no data from before the page was opened.
  const length = Math.min(SECONDS_MAX, Math.floor(performance.now() / 1000));
  const seconds = Array.from({ length }, (_, index) => end - length + index);
  const values = seconds.map((second) => delivered.get(second) ?? 0);
  const recent = values.slice(-AVERAGE_SECONDS);
  const rate = length < 2 ? null : recent.reduce((sum, value) => sum + value, 0) / recent.length;
  return { delivered: values, failed: seconds.map((second) => failed.get(second) ?? 0), rate, peak: Math.max(0, ...values) };
}
