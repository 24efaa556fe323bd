// Requeue, cancel, discard and resume, each after a confirmation. Success is shown only after the API has confirmed it.

import { ApiError, cancelEvent, discardEvent, requeueEvent, resumeDestination } from "./api.js";
import { byId, setError } from "./dom.js";

const ACTIONS = {
  requeue: {
    title: "Requeue this event?",
    text: "The event becomes pending and is sent again now. Its attempts are counted from zero.",
    label: "Requeue",
    busyLabel: "Requeueing…",
    buttonClass: "main",
    perform: (event, key) => requeueEvent(event.event_id, key),
    successText: (response) => `${response.event_id} is ${response.delivery_status} again.${response.held ? ` It is held: ${response.held.reason}.` : ""}`,
  },
  cancel: {
    title: "Cancel this event?",
    text: "The event is not sent again unless you requeue it. A request that is already in flight may still arrive.",
    label: "Cancel event",
    busyLabel: "Cancelling…",
    buttonClass: "danger",
    perform: (event, key) => cancelEvent(event.event_id, byId("reason").value.trim(), key),
    successText: (response) => `${response.event_id} is cancelled.`,
    hasReason: true,
  },
  discard: {
    title: "Discard this event?",
    text: "The event is removed for good, with its payload and its attempts.",
    label: "Discard event",
    busyLabel: "Discarding…",
    buttonClass: "danger",
    perform: (event, key) => discardEvent(event.event_id, byId("reason").value.trim(), key),
    successText: (response) => `${response.event_id} is discarded.`,
    hasReason: true,
  },
  resume: {
    title: "Resume this destination?",
    text: "Its pause ends, its circuit closes, and its due events are sent now.",
    label: "Resume",
    busyLabel: "Resuming…",
    buttonClass: "main",
    perform: (destination) => resumeDestination(destination.destination_id),
    successText: (response) => `${response.host} is resumed.`,
  },
};

const dialog = byId("confirm");
let current = null;
let handlers;

/** Calls `onSuccess(text)` or `onError(error)` after an action. */
export function initActions(callbacks) {
  handlers = callbacks;
  byId("confirm-form").addEventListener("submit", perform);
  byId("confirm-back").addEventListener("click", () => dialog.close());
}

/** Asks for confirmation of an action on an event or a destination. */
export function confirmAction(name, event) {
  // A repetition after a lost response has the same key, so that the action is applied once.
  current = { action: ACTIONS[name], event, key: randomKey() };
  const { title, text, label, buttonClass, hasReason } = current.action;
  byId("confirm-title").textContent = title;
  byId("confirm-text").textContent = text;
  byId("confirm-event").textContent = event.event_id ? `${event.event_id} → ${event.destination_url}` : event.url;
  byId("confirm-submit").textContent = label;
  byId("confirm-submit").className = buttonClass;
  byId("confirm-reason").hidden = !hasReason;
  byId("reason").value = "";
  setError(byId("confirm-error"), null);
  dialog.showModal();
  byId(hasReason ? "reason" : "confirm-submit").focus();
}

/** Unlike `randomUUID`, this also exists on pages that were loaded without TLS. */
function randomKey() {
  return crypto.getRandomValues(new BigUint64Array(2)).join("-");
}

async function perform(submit) {
  submit.preventDefault();
  const { action, event, key } = current;
  const button = byId("confirm-submit");
  if (button.disabled) return;
  button.disabled = true;
  button.textContent = action.busyLabel;
  setError(byId("confirm-error"), null);
  try {
    const response = await action.perform(event, key);
    dialog.close();
    handlers.onSuccess(action.successText(response));
  } catch (error) {
    setError(byId("confirm-error"), describe(error));
    handlers.onError(error);
  } finally {
    button.disabled = false;
    button.textContent = action.label;
  }
}

function describe(error) {
  const forbidden = error instanceof ApiError && error.status === 403;
  return forbidden ? `This needs a key with the role operator. Response: ${error}` : String(error);
}
