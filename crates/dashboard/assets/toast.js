// Short confirmations at the bottom of the page.

import { el } from "./dom.js";

const TOAST_MS = 8000;
const toast = el("p", { id: "toast", class: "toast", role: "status", "aria-live": "polite" });
document.body.append(toast);
/** @type {number | undefined} */
let timer;

/** Shows a text for a few seconds. @param {string} text */
export function showToast(text) {
  toast.textContent = text;
  clearTimeout(timer);
  timer = setTimeout(() => { toast.textContent = ""; }, TOAST_MS);
}
