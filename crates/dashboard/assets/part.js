// A part of a view that is loaded on its own. If its load fails, its panel says so, and the next poll tries again.

import { el, setError } from "./dom.js";
import { hasStatus } from "./http.js";
import { createSequence } from "./latest.js";
import { reportMissingKey } from "./problems.js";

/**
 * @template T
 * @param {HTMLElement} root a panel, whose first child is its header
 * @param {string} name of what is loaded, for the error
 * @param {() => Promise<T>} load @param {(value: T) => void} show
 */
export function createPart(root, name, load, show) {
  const error = el("p", { class: "error", role: "alert", hidden: true });
  root.firstElementChild?.after(error);
  const send = createSequence();
  let isOpen = true;
  let wasShown = false;

  async function refresh() {
    const mayShow = send();
    let value;
    try {
      value = await load();
    } catch (problem) {
      if (!isOpen || !mayShow()) return;
      root.classList.toggle("failed", !wasShown);
      setError(error, hasStatus(problem, 401) ? null : `${name} could not be loaded${wasShown ? ", so what is shown may be outdated" : ""}. ${problem}`);
      return reportMissingKey(problem);
    }
    if (!isOpen || !mayShow()) return;
    try {
      show(value);
    } catch (problem) {
      // A bug of the page: the user sees where, and the browser's log has the rest.
      setError(error, `${name} cannot be shown. ${problem}`);
      throw problem;
    }
    wasShown = true;
    root.classList.remove("failed");
    setError(error, null);
  }

  return {
    refresh,
    close() {
      isOpen = false;
    },
  };
}
