// The operator's actions on events, destinations and operations, each after a confirmation.

import { cancelEvent, discardEvent, pauseDestination, probeDestination, replayEvent, requeueEvent, resumeDestination, startBulk, stopBulk, stopOperation } from "./api.js";
import { confirm } from "./confirm.js";
import { el } from "./dom.js";
import { ApiError } from "./http.js";
import { reportMissingKey } from "./problems.js";

/** @typedef {{ key: string, reason: string, seconds: number }} Entered what the user entered, and the action's idempotency key */
/**
 * @typedef {object} Action
 * @property {string} [title]
 * @property {string} [text]
 * @property {string} label
 * @property {string} busyLabel
 * @property {boolean} [isDangerous]
 * @property {boolean} [hasReason]
 * @property {boolean} [hasSeconds]
 * @property {(subject: any, entered: Entered) => Promise<any>} perform
 * @property {(response: any) => string} successText
 */

/** @type {Record<string, Action>} */
const ACTIONS = {
  requeue: {
    title: "Requeue this event?",
    text: "The event becomes pending and is sent again now. Its attempts are counted from zero.",
    label: "Requeue",
    busyLabel: "Requeueing…",
    perform: (event, { key }) => requeueEvent(event.event_id, key),
    successText: (response) => `${response.event_id} is ${response.delivery_status} again.${response.held ? ` It is held: ${response.held.reason}.` : ""}`,
  },
  cancel: {
    title: "Cancel this event?",
    text: "The event is not sent again unless you requeue it. A request that is already in flight may still arrive.",
    label: "Cancel event",
    busyLabel: "Cancelling…",
    isDangerous: true,
    hasReason: true,
    perform: (event, { key, reason }) => cancelEvent(event.event_id, reason, key),
    successText: (response) => `${response.event_id} is cancelled.`,
  },
  replay: {
    title: "Send this event again?",
    text: "A new event with the same content is sent to the same destination. The delivered one stays as it is.",
    label: "Send again",
    busyLabel: "Sending…",
    perform: (event, { key }) => replayEvent(event.event_id, key),
    successText: (response) => `${response.event_id} is ${response.delivery_status}.${response.held ? ` It is held: ${response.held.reason}.` : ""}`,
  },
  discard: {
    title: "Discard this event?",
    text: "The event is removed for good, with its payload and its attempts.",
    label: "Discard event",
    busyLabel: "Discarding…",
    isDangerous: true,
    hasReason: true,
    perform: (event, { key, reason }) => discardEvent(event.event_id, reason, key),
    successText: (response) => `${response.event_id} is discarded.`,
  },
  pause: {
    title: "Pause this destination?",
    text: "Its events wait. Requests that are already in flight finish.",
    label: "Pause",
    busyLabel: "Pausing…",
    hasReason: true,
    hasSeconds: true,
    perform: (destination, { seconds, reason }) =>
      pauseDestination(destination.destination_id, { ...(seconds ? { seconds } : {}), ...(reason ? { reason } : {}) }),
    successText: (response) => `${response.host} is paused.`,
  },
  resume: {
    title: "Resume this destination?",
    text: "Its pause ends, its circuit closes, and its due events are sent now.",
    label: "Resume",
    busyLabel: "Resuming…",
    perform: (destination) => resumeDestination(destination.destination_id),
    successText: (response) => `${response.host} is resumed.`,
  },
  probe: {
    title: "Probe this destination now?",
    text: "One request is sent at once. If it succeeds, the circuit closes; if it fails, the circuit stays open for its whole pause.",
    label: "Probe now",
    busyLabel: "Probing…",
    perform: (destination) => probeDestination(destination.destination_id),
    successText: (response) => (response.probed ? "A probe is on its way." : `No probe is sent: ${response.reason}.`),
  },
  stop: {
    title: "Stop this operation?",
    text: "Events that it has already changed stay changed. A stopped operation cannot be continued; start another one.",
    label: "Stop",
    busyLabel: "Stopping…",
    isDangerous: true,
    perform: (operation) => stopBulk(operation.operation_id),
    successText: () => "The operation is stopped.",
  },
  stopRecovery: {
    title: "Stop this recovery?",
    text: "What it has sent stays sent. A stopped recovery cannot be continued; start another one.",
    label: "Stop",
    busyLabel: "Stopping…",
    isDangerous: true,
    perform: (operation) => stopOperation(operation.operation_id),
    successText: () => "The recovery is stopped.",
  },
  bulk: {
    label: "Start",
    busyLabel: "Starting…",
    hasReason: true,
    perform: ({ request }, { key, reason }) => startBulk(reason ? { ...request, reason } : request, key),
    successText: () => "The operation has started.",
  },
};

const UNTIL = [["", "I resume it"], ["900", "15 minutes from now"], ["3600", "an hour from now"], ["86400", "a day from now"]];

/**
 * Asks for confirmation of an action on an event, a destination or an operation.
 * @param {keyof typeof ACTIONS} name @param {any} subject @param {(response: any) => void} [onSuccess]
 */
export function confirmAction(name, subject, onSuccess) {
  const action = ACTIONS[name];
  const reason = el("input", { id: "reason", type: "text", maxlength: "200", autocomplete: "off" });
  const seconds = el("select", { id: "seconds" }, UNTIL.map(([value, label]) => el("option", { value }, label)));
  const until = el("div", {}, el("label", { for: "seconds" }, "Until"), seconds);
  const why = el("div", {}, el("label", { for: "reason" }, "Reason ", el("span", { class: "muted" }, "(optional; recorded with your name)")), reason);
  confirm({
    title: "",
    text: "",
    ...action,
    ...subject.words,
    subject: subjectText(subject),
    fields: [...(action.hasReason ? [why] : []), ...(action.hasSeconds ? [until] : [])],
    perform: (key) => action.perform(subject, { key, reason: reason.value.trim(), seconds: Number(seconds.value) }),
    onSuccess,
  });
}

/** @param {any} subject */
function subjectText(subject) {
  if (subject.event_id) return `${subject.event_id} → ${subject.destination_url}`;
  return subject.url ?? subject.summary ?? subject.operation_id ?? "";
}

/** Returns the text of an action's error for an operator. @param {any} error */
export function describeActionError(error) {
  reportMissingKey(error);
  const forbidden = error instanceof ApiError && error.status === 403;
  return forbidden ? `This needs a key with the role operator. Response: ${error}` : String(error);
}
