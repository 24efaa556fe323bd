// Estimates the server's clock, from which ages and rates are computed.

let serverOffsetMs = 0;
let isKnown = false;

/** Takes the `date` header of a response. It is truncated to seconds, so small differences are ignored. @param {string | null} dateHeader */
export function updateServerClock(dateHeader) {
  const serverMs = Date.parse(dateHeader ?? "");
  if (Number.isNaN(serverMs)) return;
  isKnown = true;
  const offsetMs = serverMs + 500 - Date.now();
  if (Math.abs(offsetMs - serverOffsetMs) > 1500) serverOffsetMs = Math.abs(offsetMs) > 1500 ? offsetMs : 0;
}

/** Returns whether a response has said the server's time. Until then, `serverNowMs` is the clock of this computer, which may be wrong. */
export function isServerTimeKnown() {
  return isKnown;
}

export function serverNowMs() {
  return Date.now() + serverOffsetMs;
}
