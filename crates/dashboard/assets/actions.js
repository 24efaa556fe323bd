// Actions on events and destinations, each after a confirmation. Success is shown only after the API has confirmed it.

import { ApiError, cancelEvent, discardEvent, pauseDestination, randomKey, requeueEvent, resumeDestination, startBulk, stopBulk } from "./api.js";
import { byId, setError } from "./dom.js";
import { reportMissingKey, showToast } from "./problems.js";

const reason = () => byId("reason").value.trim();

const ACTIONS = {
  requeue: {
    title: "Requeue this event?",
    text: "The event becomes pending and is sent again now. Its attempts are counted from zero.",
    label: "Requeue",
    busyLabel: "Requeueing…",
    perform: (event, key) => requeueEvent(event.event_id, key),
    successText: (response) => `${response.event_id} is ${response.delivery_status} again.${response.held ? ` It is held: ${response.held.reason}.` : ""}`,
  },
  cancel: {
    title: "Cancel this event?",
    text: "The event is not sent again unless you requeue it. A request that is already in flight may still arrive.",
    label: "Cancel event",
    busyLabel: "Cancelling…",
    isDangerous: true,
    hasReason: true,
    perform: (event, key) => cancelEvent(event.event_id, reason(), key),
    successText: (response) => `${response.event_id} is cancelled.`,
  },
  discard: {
    title: "Discard this event?",
    text: "The event is removed for good, with its payload and its attempts.",
    label: "Discard event",
    busyLabel: "Discarding…",
    isDangerous: true,
    hasReason: true,
    perform: (event, key) => discardEvent(event.event_id, reason(), key),
    successText: (response) => `${response.event_id} is discarded.`,
  },
  pause: {
    title: "Pause this destination?",
    text: "Its events wait. Requests that are already in flight finish.",
    label: "Pause",
    busyLabel: "Pausing…",
    hasReason: true,
    hasSeconds: true,
    perform: (destination) => pauseDestination(destination.destination_id, pauseBody()),
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
  stop: {
    title: "Stop this operation?",
    text: "Events that it has already changed stay changed. A stopped operation cannot be continued; start another one.",
    label: "Stop",
    busyLabel: "Stopping…",
    isDangerous: true,
    perform: (operation) => stopBulk(operation.operation_id),
    successText: () => "The operation is stopped.",
  },
  bulk: {
    label: "Start",
    busyLabel: "Starting…",
    hasReason: true,
    perform: ({ request }, key) => startBulk(reason() ? { ...request, reason: reason() } : request, key),
    successText: () => "The operation has started.",
  },
};

const dialog = byId("confirm");
let current = null;
let onDone = () => {};

/** @param {() => void} afterAction called after an action that succeeded or failed */
export function initActions(afterAction) {
  onDone = afterAction;
  byId("confirm-form").addEventListener("submit", perform);
  byId("confirm-back").addEventListener("click", () => dialog.close());
}

/**
 * Asks for confirmation of an action on an event, a destination or an operation. `onSuccess` gets the response.
 * @param {keyof typeof ACTIONS} name
 */
export function confirmAction(name, subject, onSuccess = (_response) => {}) {
  // A repetition after a lost response has the same key, so that the action is applied once.
  current = { action: { ...ACTIONS[name], ...subject.words }, subject, onSuccess, key: randomKey() };
  const { title, text, label, isDangerous, hasReason, hasSeconds } = current.action;
  byId("confirm-title").textContent = title;
  byId("confirm-text").textContent = text;
  byId("confirm-subject").textContent = subjectText(subject);
  byId("confirm-submit").textContent = label;
  byId("confirm-submit").className = isDangerous ? "danger" : "main";
  byId("confirm-reason").hidden = !hasReason;
  byId("confirm-seconds").hidden = !hasSeconds;
  byId("reason").value = "";
  byId("seconds").value = "";
  setError(byId("confirm-error"), null);
  dialog.showModal();
  byId(hasReason ? "reason" : "confirm-submit").focus();
}

function subjectText(subject) {
  if (subject.event_id) return `${subject.event_id} → ${subject.destination_url}`;
  return subject.url ?? subject.summary ?? subject.operation_id ?? "";
}

function pauseBody() {
  const seconds = Number(byId("seconds").value);
  return { ...(seconds ? { seconds } : {}), ...(reason() ? { reason: reason() } : {}) };
}

async function perform(submit) {
  submit.preventDefault();
  const { action, subject, key, onSuccess } = current;
  const button = byId("confirm-submit");
  if (button.disabled) return;
  button.disabled = true;
  button.textContent = action.busyLabel;
  setError(byId("confirm-error"), null);
  try {
    const response = await action.perform(subject, key);
    dialog.close();
    showToast(action.successText(response));
    onSuccess(response);
  } catch (error) {
    setError(byId("confirm-error"), describe(error));
    reportMissingKey(error);
  } finally {
    button.disabled = false;
    button.textContent = action.label;
    onDone();
  }
}

function describe(error) {
  const forbidden = error instanceof ApiError && error.status === 403;
  return forbidden ? `This needs a key with the role operator. Response: ${error}` : String(error);
}
