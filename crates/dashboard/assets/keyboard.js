// Keyboard shortcuts. They are ignored in fields, in dialogs and with modifier keys.

import { byId } from "./dom.js";
import { hashOf, navigate } from "./router.js";

const VIEWS = { o: "overview", l: "live", e: "events", d: "dead-letters", t: "destinations", b: "bulk", s: "send" };
const CHORD_MS = 1500;
let chordUntil = 0;

/** @param {{ refresh: () => void, viewKey: (key: string) => boolean }} handlers */
export function initKeyboard({ refresh, viewKey }) {
  byId("open-help").addEventListener("click", () => byId("help").showModal());
  document.addEventListener("keydown", (press) => {
    if (press.defaultPrevented || press.ctrlKey || press.metaKey || press.altKey) return;
    if (press.key === "Escape" && document.activeElement === byId("find-id")) return byId("view").focus();
    const target = /** @type {HTMLElement} */ (press.target);
    if (target.closest("input, select, textarea, dialog")) return;
    if (handle(press.key, refresh, viewKey)) press.preventDefault();
  });
}

function handle(key, refresh, viewKey) {
  if (performance.now() < chordUntil && VIEWS[key]) {
    chordUntil = 0;
    navigate(VIEWS[key] === "overview" ? "#/" : hashOf([VIEWS[key]]));
    return true;
  }
  if (viewKey(key)) return true;
  if (key === "g") chordUntil = performance.now() + CHORD_MS;
  else if (key === "/") byId("find-id").focus();
  else if (key === "?") byId("help").showModal();
  else if (key === "j") moveRow(1);
  else if (key === "k") moveRow(-1);
  else if (key === "u") document.querySelector("#view .up")?.click();
  else if (key === "r") (currentRow()?.querySelector("[data-action=requeue]") ?? { click: refresh }).click();
  else return false;
  return true;
}

function currentRow() {
  return document.activeElement?.closest("#view .row") ?? null;
}

/** Moves the focus to the link of the next or previous row. */
function moveRow(step) {
  const rows = [...document.querySelectorAll("#view .row:has([data-open])")];
  if (rows.length === 0) return;
  const index = rows.indexOf(currentRow());
  const next = index === -1 ? (step > 0 ? 0 : rows.length - 1) : Math.min(Math.max(index + step, 0), rows.length - 1);
  const link = rows[next].querySelector("[data-open]");
  link.focus({ preventScroll: true });
  rows[next].scrollIntoView({ block: "nearest" });
}
