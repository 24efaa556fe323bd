// Shows views, and keeps those that were left: Back shows the rows, the place and the focus that the user left.

import { byId } from "./dom.js";

const KEPT_MAX = 5;

/** @typedef {{ view: View, scrollY: number, focused: Element | null }} LeftView */
/** The views that were left, by their entries in the browser's history. @type {Map<string, LeftView>} */
const kept = new Map();
/** The entry of the open view. @type {string | undefined} */
let openEntry;

history.scrollRestoration = "manual";

/**
 * Shows the view of the address, and returns it: the one that was left in this entry of the history, or a new one. A view with
 * `close` is not kept.
 * @param {View | null} before the open view @param {() => View} open creates a view
 */
export function showView(before, open) {
  if (before?.close) before.close();
  else if (before) keep(before);
  openEntry = currentEntry();
  const found = kept.get(openEntry ?? "");
  kept.delete(openEntry ?? "");
  const view = found?.view ?? open();
  byId("view").replaceChildren(view.root);
  window.scrollTo(0, found?.scrollY ?? 0);
  if (before) restoreFocus(found?.focused);
  return view;
}

/** Forgets all views, such as those of another user. */
export function forgetViews() {
  kept.clear();
}

/** @param {View} view */
function keep(view) {
  if (openEntry === undefined) return;
  const focused = view.root.contains(document.activeElement) ? document.activeElement : null;
  kept.set(openEntry, { view, scrollY: window.scrollY, focused });
  const [oldest] = kept.keys();
  if (kept.size > KEPT_MAX) kept.delete(oldest);
}

/** Focuses what had the focus in a view, or the view, if the focused element has gone. @param {Element | null | undefined} focused */
function restoreFocus(focused) {
  if (![null, document.body, byId("view")].includes(document.activeElement)) return;
  const target = focused?.isConnected ? /** @type {HTMLElement} */ (focused) : byId("view");
  target.focus({ preventScroll: true });
}

/** Names the open entry of the browser's history. Older browsers do not; there, Back opens a new view. @returns {string | undefined} */
function currentEntry() {
  return globalThis.navigation?.currentEntry?.key;
}
