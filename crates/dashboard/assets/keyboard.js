// Keyboard shortcuts. They are ignored in fields, in dialogs and with modifier keys.

import { byId } from "./dom.js";
import { navigate } from "./router.js";

const CHORD_MS = 1500;
let chordUntil = 0;

/** Links by the key that follows a `g`. @type {Record<string, string>} */
let links = {};

/** @param {{ chords: Record<string, string>, refresh: () => void, viewKey: (key: string) => boolean }} handlers */
export function initKeyboard({ chords, refresh, viewKey }) {
  links = chords;
  byId("open-help").addEventListener("click", () => byId("help").showModal());
  document.addEventListener("keydown", (press) => {
    if (press.defaultPrevented || press.ctrlKey || press.metaKey || press.altKey) return;
    if (press.key === "Escape" && document.activeElement === byId("find-id")) byId("view").focus();
    const target = /** @type {HTMLElement} */ (press.target);
    if (target.closest("input, select, textarea") || document.querySelector("dialog[open]")) return;
    if (handle(press.key, refresh, viewKey)) press.preventDefault();
  });
}

/** @param {string} key @param {() => void} refresh @param {(key: string) => boolean} viewKey */
function handle(key, refresh, viewKey) {
  if (performance.now() < chordUntil && links[key]) {
    chordUntil = 0;
    navigate(links[key]);
    return true;
  }
  if (viewKey(key)) return true;
  if (key === "g") chordUntil = performance.now() + CHORD_MS;
  else if (key === "/") byId("find-id").focus();
  else if (key === "?") byId("help").showModal();
  else if (key === "j") moveRow(1);
  else if (key === "k") moveRow(-1);
  else if (key === "u") /** @type {HTMLElement | null} */ (document.querySelector("#view .up"))?.click();
  else if (key === "r") repeatRow(refresh);
  else return false;
  return true;
}

/** Sends the event of the row again, or refreshes if no row has the focus. @param {() => void} refresh */
function repeatRow(refresh) {
  const found = /** @type {HTMLElement | null | undefined} */ (currentRow()?.querySelector("[data-action=requeue], [data-action=resend]"));
  if (found) found.click();
  else refresh();
}

function currentRow() {
  return document.activeElement?.closest("#view .row") ?? null;
}

/** Moves the focus to the link of the next or previous row. @param {number} step */
function moveRow(step) {
  const rows = [...document.querySelectorAll("#view .row:has([data-open])")];
  if (rows.length === 0) return;
  const index = rows.findIndex((row) => row === currentRow());
  const next = index === -1 ? (step > 0 ? 0 : rows.length - 1) : Math.min(Math.max(index + step, 0), rows.length - 1);
  const link = /** @type {HTMLElement | null} */ (rows[next].querySelector("[data-open]"));
  link?.focus({ preventScroll: true });
  rows[next].scrollIntoView({ block: "nearest" });
}
