// Requeue and cancel: asked, done, and told as the API told it. Nothing is shown as done before it is.

import { ApiError, cancel, requeue } from "./api.js";
import { byId, setRefusal } from "./dom.js";

const ACTIONS = {
  requeue: {
    title: "Requeue this event?",
    text: "It becomes pending and is sent at once, with its attempts counted from zero.",
    label: "Requeue",
    doing: "Requeueing…",
    tone: "main",
    perform: (event) => requeue(event.event_id),
    done: (answer) => `${answer.event_id} is ${answer.delivery_status} again.`,
  },
  cancel: {
    title: "Cancel this event?",
    text: "It is not sent again unless someone requeues it. A request that is on its way may still arrive.",
    label: "Cancel event",
    doing: "Cancelling…",
    tone: "danger",
    perform: (event) => cancel(event.event_id, byId("reason").value.trim()),
    done: (answer) => `${answer.event_id} is cancelled.`,
  },
};

const dialog = byId("confirm");
let asked = null;
let handlers;

/** `onDone(text)` follows an action that was done, `onError(error)` one that was not. */
export function startActions(given) {
  handlers = given;
  byId("confirm-form").addEventListener("submit", perform);
  byId("confirm-back").addEventListener("click", () => dialog.close());
}

export function ask(name, event) {
  asked = { action: ACTIONS[name], event };
  const { title, text, label, tone } = asked.action;
  byId("confirm-title").textContent = title;
  byId("confirm-text").textContent = text;
  byId("confirm-event").textContent = `${event.event_id} → ${event.destination_url}`;
  byId("confirm-do").textContent = label;
  byId("confirm-do").className = tone;
  byId("confirm-reason").hidden = name !== "cancel";
  byId("reason").value = "";
  setRefusal(byId("confirm-error"), null);
  dialog.showModal();
  (name === "cancel" ? byId("reason") : byId("confirm-do")).focus();
}

async function perform(submit) {
  submit.preventDefault();
  const { action, event } = asked;
  const button = byId("confirm-do");
  if (button.disabled) return;
  button.disabled = true;
  button.textContent = action.doing;
  setRefusal(byId("confirm-error"), null);
  try {
    const answer = await action.perform(event);
    dialog.close();
    handlers.onDone(action.done(answer));
  } catch (error) {
    setRefusal(byId("confirm-error"), refusalOf(error));
    handlers.onError(error);
  } finally {
    button.disabled = false;
    button.textContent = action.label;
  }
}

function refusalOf(error) {
  const forbidden = error instanceof ApiError && error.status === 403;
  return forbidden ? `This needs a key with the role operator. The API said: ${error}` : String(error);
}
