// Texts with a button that copies them.

import { button, el } from "./dom.js";
import { showToast } from "./toast.js";

/** Creates a button that copies the text that `textOf` returns. @param {() => string} textOf @param {string} name what is copied, for screen readers */
export function copyButton(textOf, name) {
  return button("Copy", async () => {
    try {
      await navigator.clipboard.writeText(textOf());
      showToast("Copied.");
    } catch {
      showToast("The browser does not allow copying; select the text instead.");
    }
  }, { "aria-label": `Copy ${name}` });
}

/** Creates a command with a button that copies it. @param {string} text */
export function command(text) {
  return el("div", { class: "command" }, el("code", { tabindex: "0" }, text), copyButton(() => text, "the command"));
}
