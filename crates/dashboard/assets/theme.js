// The switch of colours: as the system, light, dark. Only the choice is stored, never data.

import { byId } from "./dom.js";

const NAME = "posthaste-theme";
/** @type {Record<string, string>} */
const LABELS = { "": "as the system", light: "light", dark: "dark" };
/** @type {Record<string, string>} */
const NEXT = { "": "light", light: "dark", dark: "" };
/** @type {(() => void)[]} */
const listeners = [];

let theme = "";
try {
  theme = localStorage.getItem(NAME) ?? "";
} catch {}
if (!(theme in LABELS)) theme = "";

/** Calls `listener` after the colours have changed, also by the system. @param {() => void} listener */
export function onThemeChange(listener) {
  listeners.push(listener);
}

export function initTheme() {
  apply();
  byId("theme").addEventListener("click", () => {
    theme = NEXT[theme];
    try {
      localStorage.setItem(NAME, theme);
    } catch {}
    apply();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", notify);
}

function apply() {
  document.documentElement.dataset.theme = theme;
  const label = `Colours: ${LABELS[theme]}`;
  byId("theme").setAttribute("aria-label", label);
  byId("theme").title = label;
  notify();
}

function notify() {
  for (const listener of listeners) listener();
}
