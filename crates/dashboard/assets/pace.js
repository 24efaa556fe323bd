// How often to ask for something that changes on its own: every second at first, then less and less often until it changes.

const MS_MIN = 1000;
const GROWTH = 1.3;

/** @param {number} msMax the longest pause */
export function createPace(msMax) {
  let pauseMs = MS_MIN;
  let dueAt = 0;
  return {
    isDue: () => performance.now() >= dueAt,
    /** Starts the pause before the next question. @param {boolean} hasChanged whether the last answer was a new one */
    next(hasChanged) {
      pauseMs = hasChanged ? MS_MIN : Math.min(pauseMs * GROWTH, msMax);
      // The caller asks once a second, and not to the millisecond.
      dueAt = performance.now() + pauseMs - 100;
    },
  };
}
