// A form of conditions on a list. The list, its polls and its actions follow the conditions that were applied, not those that the
// user is still typing.

import { button, el } from "./dom.js";
import { replaceQuery } from "./router.js";

/** @typedef {Record<string, string>} Filter conditions by name, without those that are not given */
/** @typedef {Record<string, HTMLInputElement | HTMLSelectElement>} Controls */

/**
 * @param {object} options
 * @param {string} options.label names the form for screen readers
 * @param {Controls} options.controls
 * @param {HTMLElement[]} options.fields the controls with their labels
 * @param {HTMLElement | null} [options.more] further fields, below the others
 * @param {HTMLElement[]} [options.immediate] controls whose changes are applied at once
 * @param {() => void} options.onApply
 */
export function createFilterForm({ label, controls, fields, more = null, immediate = [], onApply }) {
  const root = el("form", { role: "search", class: "stack", "aria-label": label },
    el("div", { class: "filters" }, fields, el("button", { type: "submit" }, "Filter"), button("Clear", clear, { class: "plain" })), more);
  let applied = filterOf(controls);

  function apply() {
    applied = filterOf(controls);
    replaceQuery(applied);
    onApply();
  }

  function clear() {
    for (const control of Object.values(controls)) control.value = "";
    apply();
  }

  root.addEventListener("submit", (/** @type {SubmitEvent} */ submit) => {
    submit.preventDefault();
    apply();
  });
  for (const control of immediate) control.addEventListener("change", apply);
  return {
    root,
    /** The conditions of the list. */
    filter: () => applied,
    isEmpty: () => Object.keys(applied).length === 0,
  };
}

/** Returns the conditions that are given. Times are instants in UTC, so that a link means the same in every time zone. @param {Controls} controls @returns {Filter} */
function filterOf(controls) {
  const valueOf = (/** @type {HTMLInputElement | HTMLSelectElement} */ control) =>
    (control.type === "datetime-local" && control.value ? new Date(control.value).toISOString() : control.value.trim());
  return Object.fromEntries(Object.entries(controls).map(([name, control]) => [name, valueOf(control)]).filter(([, value]) => value !== ""));
}

/** Returns an instant as the value of a field of local time; an empty text for anything else. @param {string | null} instant */
export function localTimeOf(instant) {
  const ms = Date.parse(instant ?? "");
  if (Number.isNaN(ms)) return "";
  const local = new Date(ms - new Date(ms).getTimezoneOffset() * 60000).toISOString();
  return local.endsWith(":00.000Z") ? local.slice(0, 16) : local.slice(0, 19);
}
