// The dialog that asks for an API key.

import { currentKey, setKey } from "./api.js";
import { byId, setError } from "./dom.js";

const dialog = byId("key");

/** @param {() => void} onKey called after a key was entered */
export function initKeyDialog(onKey) {
  const field = byId("key-value");
  field.addEventListener("input", () => field.setCustomValidity(""));
  byId("key-form").addEventListener("submit", (/** @type {SubmitEvent} */ submit) => {
    submit.preventDefault();
    const key = field.value.trim();
    // Other characters cannot be sent in a header.
    if (!/^[\x21-\x7e]+$/.test(key)) {
      field.setCustomValidity("A key consists of printable ASCII characters without spaces.");
      field.reportValidity();
      return;
    }
    field.value = "";
    setKey(key);
    byId("forget-key").hidden = false;
    dialog.close();
    onKey();
  });
  byId("key-later").addEventListener("click", () => dialog.close());
  byId("forget-key").addEventListener("click", () => location.reload());
}

/** @param {string | null} error the API's error about the current key, if there is one */
export function openKeyDialog(error) {
  if (dialog.open) return;
  setError(byId("key-error"), currentKey() === null ? null : error);
  dialog.showModal();
}
