// Shows a new secret once, so that the operator can hand it on.

import { copyButton } from "./copy.js";
import { el, setText } from "./dom.js";

const code = el("code", { class: "secret" });
const dialog = el("dialog", { id: "new-secret", "aria-labelledby": "new-secret-title" },
  el("h2", { id: "new-secret-title" }, "The new secret"),
  el("p", {}, "Requests are signed with it from now on, and for a day also with the previous one."), code,
  el("form", { method: "dialog", class: "actions" }, copyButton(() => code.textContent, "the secret"), el("button", {}, "Close")));
document.body.append(dialog);
dialog.addEventListener("close", () => setText(code, ""));

/** @param {string | null} secret null if the server does not say it */
export function showSecret(secret) {
  if (secret === null) return;
  setText(code, secret);
  dialog.showModal();
}
