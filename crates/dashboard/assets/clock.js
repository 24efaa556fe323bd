// Estimates the server's clock, from which ages and rates are computed.

let serverOffsetMs = 0;

/** Takes the `date` header of a response. It is truncated to seconds, so small differences are ignored. @param {string | null} dateHeader */
export function updateServerClock(dateHeader) {
  const serverMs = Date.parse(dateHeader ?? "");
  if (Number.isNaN(serverMs)) return;
  const offsetMs = serverMs + 500 - Date.now();
  if (Math.abs(offsetMs - serverOffsetMs) > 1500) serverOffsetMs = Math.abs(offsetMs) > 1500 ? offsetMs : 0;
}

export function serverNowMs() {
  return Date.now() + serverOffsetMs;
}
