// Asks for an API key when the API wants one.

import { currentKey, useKey } from "./api.js";
import { byId, setRefusal } from "./dom.js";

const dialog = byId("key");

/** `onKey` follows a new key. */
export function startKey(onKey) {
  const field = byId("key-value");
  field.addEventListener("input", () => field.setCustomValidity(""));
  byId("key-form").addEventListener("submit", (submit) => {
    submit.preventDefault();
    const key = field.value.trim();
    // Anything else cannot stand in a header.
    if (!/^[\x21-\x7e]+$/.test(key)) {
      field.setCustomValidity("A key is made of printable ASCII characters, without spaces.");
      field.reportValidity();
      return;
    }
    field.value = "";
    useKey(key);
    showForget();
    dialog.close();
    onKey();
  });
  byId("key-later").addEventListener("click", () => dialog.close());
  byId("forget-key").addEventListener("click", () => {
    useKey(null);
    location.reload();
  });
  showForget();
}

/** `refusal` is what the API said about the key in use, if one is. */
export function askForKey(refusal) {
  if (dialog.open) return;
  setRefusal(byId("key-error"), currentKey() === null ? null : refusal);
  dialog.showModal();
}

function showForget() {
  byId("forget-key").hidden = currentKey() === null;
}
