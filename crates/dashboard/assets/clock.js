// The server's clock as far as it is known: ages and rates are about its time, whatever this computer's clock says.

let aheadMs = 0;

/** Takes the `date` of an answer. It is cut to the second, so half a second off is no news. */
export function learn(date) {
  const serverMs = Date.parse(date ?? "");
  if (Number.isNaN(serverMs)) return;
  const ahead = serverMs + 500 - Date.now();
  if (Math.abs(ahead - aheadMs) > 1500) aheadMs = Math.abs(ahead) > 1500 ? ahead : 0;
}

export function nowMs() {
  return Date.now() + aheadMs;
}
