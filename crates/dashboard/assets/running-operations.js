// The number of operations that run, in the navigation of every view.

import { listBulk, listOperations } from "./api.js";
import { showRunningOperations } from "./navigation.js";
import { reportMissingKey } from "./problems.js";

const COUNTED_MAX = 200;
// The counts of events are refreshed up to once a second, operations change more slowly.
const PAUSE_MS = 3500;
let countedAt = -PAUSE_MS;

/** Counts the operations that run, unless they have just been counted. */
export async function countRunningOperations() {
  if (performance.now() - countedAt < PAUSE_MS) return;
  countedAt = performance.now();
  try {
    const pages = await Promise.all([listBulk(COUNTED_MAX, null, "running"), listOperations(COUNTED_MAX, null, "running")]);
    showRunningOperations(pages.reduce((sum, page) => sum + page.operations.length, 0));
  } catch (error) {
    reportMissingKey(error);
  }
}
