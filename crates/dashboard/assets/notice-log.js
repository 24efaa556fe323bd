// The notices of this session, the newest first. They are kept while the page is open, also of the time that another view was shown.

const NOTICES_MAX = 10000;

/** Replaced as a whole, so that a paused tail keeps the list that it shows. @type {readonly Api.Notice[]} */
let notices = [];
let received = 0;

/** @param {Api.Notice[]} batch oldest first */
export function keepNotices(batch) {
  notices = [...batch].reverse().concat(notices).slice(0, NOTICES_MAX);
  received += batch.length;
}

/** Returns the kept notices, and the number of all that were received. */
export function keptNotices() {
  return { notices, received };
}
