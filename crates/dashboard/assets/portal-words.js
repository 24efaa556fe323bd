// The portal's words for the states of endpoints, messages and attempts.

import { el } from "./dom.js";
import { formatMs, lookUp, pill, relativeTime } from "./format.js";

/** @type {Record<string, string>} */
const DISABLED = {
  manual: "Disabled by hand. Messages wait until you enable it.",
  gone: "Disabled because it answered 410 Gone. Messages wait until you enable it.",
  failing: "Disabled because it failed for too long. Messages wait until you enable it.",
};
/** @type {Record<string, [string, string]>} the word and the colour of a message's state at an endpoint */
const STATES = { success: ["delivered", "ok"], pending: ["waiting", ""], sending: ["retrying", "warn"], fail: ["failed", "bad"], canceled: ["cancelled", ""] };

/** @param {Registry.Endpoint} endpoint */
export function endpointPill({ disabled }) {
  return disabled ? pill("disabled", "bad") : pill("enabled", "ok");
}

/** Says in words what an endpoint does. @param {Registry.Endpoint} endpoint @param {Registry.EndpointStats} [stats] */
export function endpointSentence({ disabled, disabledReason: reason, disabledAt: at }, stats) {
  if (!disabled && stats && stats.sending > 0) return el("span", {}, "Some messages fail. They are sent again, with growing pauses.");
  if (!disabled) return el("span", {}, "Messages are sent as they are published.");
  const text = lookUp(DISABLED, reason ?? "manual", DISABLED.manual);
  return el("span", {}, text, at ? [" Since ", relativeTime(at), "."] : null);
}

/** Lists the event types that an endpoint gets. @param {Registry.Endpoint} endpoint */
export function typesText({ eventTypes }) {
  return eventTypes === null ? "All event types" : eventTypes.join(", ");
}

/** @param {{ statusText: string }} message */
export function statePill({ statusText }) {
  const [word, color] = lookUp(STATES, statusText, [statusText, ""]);
  return pill(word, color);
}

/** The result of an attempt: the status of its response, or that there was none. @param {Registry.Attempt} attempt */
export function attemptPill({ responseStatusCode: code, status }) {
  return pill(code === 0 ? "no response" : `HTTP ${code}`, status === 0 ? "ok" : "bad");
}

/** @param {Registry.Attempt} attempt */
export function latencyText({ responseDurationMs: ms }) {
  return formatMs(ms);
}
