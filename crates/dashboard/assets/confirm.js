// The dialog that confirms an action. Success is shown only after the API has confirmed it.

import { button, el, setError } from "./dom.js";
import { randomKey } from "./http.js";
import { showToast } from "./toast.js";

/**
 * @typedef {object} Confirmation
 * @property {string} title
 * @property {string} text what the action does
 * @property {string} [subject] what it acts on
 * @property {string} label of the button
 * @property {string} busyLabel of the button while the action runs
 * @property {boolean} [isDangerous]
 * @property {HTMLElement[]} [fields] what the user may enter
 * @property {(idempotencyKey: string) => Promise<any>} perform
 * @property {(response: any) => string} successText
 * @property {(response: any) => void} [onSuccess] called unless the user has closed the dialog before the response
 * @property {boolean} [isResultNeeded] whether `onSuccess` is called also then
 */

const title = el("h2", { id: "confirm-title" });
const text = el("p", { id: "confirm-text" });
const subject = el("p", { class: "mono subject" });
const fields = el("div", { class: "confirm-fields" });
const error = el("p", { id: "confirm-error", class: "error", role: "alert", hidden: true });
const back = button("Go back", () => dialog.close(), { id: "confirm-back" });
const submitButton = el("button", { id: "confirm-submit", type: "submit" });
const form = el("form", { id: "confirm-form", method: "dialog" }, title, text, subject, fields, error, el("p", { class: "actions" }, back, submitButton));
const dialog = el("dialog", { id: "confirm", "aria-labelledby": "confirm-title", "aria-describedby": "confirm-text" }, form);
document.body.append(dialog);

/** What the open dialog confirms. @type {{ confirmation: Confirmation, key: string } | null} */
let current = null;
let afterAction = () => {};
/** @type {(error: any) => string} */
let describe = String;

/**
 * Sets what every action of the page shares.
 * @param {() => void} onDone called after an action that succeeded or failed
 * @param {(error: any) => string} onError returns the text of an error
 */
export function initConfirm(onDone, onError) {
  afterAction = onDone;
  describe = onError;
}

/** Asks for confirmation, and then performs an action. It never replaces an open dialog: what took long to prepare is dropped then. @param {Confirmation} confirmation */
export function confirm(confirmation) {
  if (document.querySelector("dialog[open]")) return;
  // A repetition after a lost response has the same key, so that the action is applied once.
  current = { confirmation, key: randomKey() };
  title.textContent = confirmation.title;
  text.textContent = confirmation.text;
  subject.textContent = confirmation.subject ?? "";
  fields.replaceChildren(...(confirmation.fields ?? []));
  allowSubmit(confirmation);
  submitButton.className = confirmation.isDangerous ? "danger" : "main";
  setError(error, null);
  dialog.showModal();
  (fields.querySelector("input, select, textarea") ?? submitButton).focus();
}

// The event comes later than the call: by then, the dialog may be open again.
dialog.addEventListener("close", () => { if (!dialog.open) current = null; });

form.addEventListener("submit", async (/** @type {SubmitEvent} */ submit) => {
  submit.preventDefault();
  if (current === null || submitButton.disabled) return;
  const mine = current;
  const { confirmation, key } = mine;
  submitButton.disabled = true;
  submitButton.textContent = confirmation.busyLabel;
  setError(error, null);
  try {
    const response = await confirmation.perform(key);
    showToast(confirmation.successText(response));
    // The dialog may have been closed meanwhile, or opened for another action.
    const isOpen = current === mine;
    if (isOpen) dialog.close();
    if (isOpen || confirmation.isResultNeeded) confirmation.onSuccess?.(response);
  } catch (problem) {
    const text = describe(problem);
    if (current === mine) setError(error, text);
    else showToast(`${confirmation.label} failed. ${text}`);
  } finally {
    if (current === mine) allowSubmit(confirmation);
    afterAction();
  }
});

/** @param {Confirmation} confirmation */
function allowSubmit(confirmation) {
  submitButton.disabled = false;
  submitButton.textContent = confirmation.label;
}
