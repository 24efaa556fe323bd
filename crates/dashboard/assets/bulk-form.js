// The bar that repairs all dead letters of a filter: first the count, then the action at a chosen rate.

import { confirmAction } from "./actions.js";
import { countBulk } from "./api.js";
import { mayOperate } from "./caller.js";
import { describeFilter, matchedText } from "./event-filter.js";
import { button, el, field, setText } from "./dom.js";
import { formatCount, formatSeconds } from "./format.js";
import { reportMissingKey } from "./problems.js";
import { hashOf, navigate } from "./router.js";

const RATE_DEFAULT = 50;
// Minimum time between two counts that follow the overview. For many dead letters, it is a multiple of the last count's duration.
const PAUSE_MS_MIN = 1000;
const PAUSE_FACTOR = 5;
/** @type {Record<string, [string, string]>} */
const WORDS = {
  requeue: ["Requeue", "They become pending and are sent again. Their attempts are counted from zero."],
  cancel: ["Cancel", "They are not sent again unless you requeue them."],
  discard: ["Discard", "They are removed for good, with their payloads and attempts."],
};

/** @param {() => import("./filter-form.js").Filter} filter returns the filter of the list; the same object until it changes */
export function createBulkForm(filter) {
  const matched = el("b", { role: "status" });
  const scope = el("span", { class: "muted" });
  const rate = el("input", { type: "number", min: "1", max: "10000", required: true, value: String(RATE_DEFAULT), inputmode: "numeric" });
  const buttons = Object.entries(WORDS).map(([action, [label]]) =>
    button(`${label} all…`, () => review(action), { class: action === "requeue" ? "main" : "danger", "data-bulk": action }));
  const root = el("section", { class: "bulk-bar", "aria-label": "All that match" },
    el("p", {}, matched, " ", scope), field("Events per second", rate), el("div", { class: "actions" }, buttons));
  /** What the bar shows. @type {{ filter: unknown, result: Api.BulkCount | null, error: unknown }} */
  let shown = { filter: null, result: null, error: null };
  let counting = 0;
  let isReviewing = false;
  /** The overview's number of dead letters at the last count; null before the first one. @type {string | null} */
  let counted = null;
  let dueAtMs = Infinity;

  /** Counts what the filter of the list selects, without changing anything. */
  async function count() {
    counting += 1;
    const mine = counting;
    const counts = filter();
    if (shown.filter !== counts) shown = { filter: counts, result: null, error: null };
    draw();
    if (!mayOperate()) return;
    const startedAtMs = performance.now();
    dueAtMs = Infinity;
    try {
      const result = await countBulk({ action: "requeue", filter: counts });
      if (mine !== counting) return;
      shown = { filter: counts, result, error: null };
    } catch (error) {
      if (mine !== counting) return;
      fail(error);
    }
    draw();
    const endedAtMs = performance.now();
    dueAtMs = endedAtMs + Math.max(PAUSE_MS_MIN, (endedAtMs - startedAtMs) * PAUSE_FACTOR);
  }

  /** Shows that a count failed; the next overview repeats it. @param {unknown} error */
  function fail(error) {
    shown = { filter: shown.filter, result: null, error };
    counted = "";
    reportMissingKey(error);
  }

  function draw() {
    const { result, error } = shown;
    root.hidden = !mayOperate();
    setText(matched, isReviewing || (result === null && error === null) ? "Counting…" : result === null ? `The count failed. ${error}`
      : `${matchedText(result)} ${result.matched_count === 1 ? "dead letter matches" : "dead letters match"}`);
    setText(scope, error === null ? describeFilter(filter()) : "");
    for (const element of buttons) element.disabled = isReviewing || !result?.matched_count;
  }

  /** Counts again, so that the confirmation names the number that the operation will meet. @param {string} action */
  async function review(action) {
    if (!rate.reportValidity()) return;
    const request = { action, filter: filter(), rate_per_second: Number(rate.value) };
    const opener = document.activeElement;
    let result;
    isReviewing = true;
    draw();
    try {
      result = await countBulk({ action, filter: request.filter });
      if (request.filter !== filter()) return;
      shown = { filter: request.filter, result, error: null };
    } catch (error) {
      return fail(error);
    } finally {
      isReviewing = false;
      draw();
      // A button that was disabled has lost the focus.
      if (document.activeElement === document.body && buttons.includes(opener)) /** @type {HTMLElement} */ (opener).focus();
    }
    if (root.isConnected) confirmBulk(request, result);
  }

  draw();
  return {
    root,
    count,
    /** Counts again when the number of dead letters has changed. @param {Api.Overview} overview */
    follow({ failed_count: failed, cancelled_count: cancelled }) {
      const now = `${failed} ${cancelled}`;
      counted ??= now;
      if (counted === now || performance.now() < dueAtMs) return;
      counted = now;
      count();
    },
  };
}

/** @param {{ action: string, filter: import("./filter-form.js").Filter, rate_per_second: number }} request @param {Api.BulkCount} result */
function confirmBulk(request, result) {
  const [label, consequence] = WORDS[request.action];
  const seconds = result.matched_count / request.rate_per_second;
  const words = {
    title: `${label} ${matchedText(result)} ${result.matched_count === 1 ? "dead letter" : "dead letters"}?`,
    text: `${consequence} At ${formatCount(request.rate_per_second)} per second this takes about ${formatSeconds(Math.max(1, seconds))}. You can stop it at any time.`,
    label: `${label} all`,
    isDangerous: request.action !== "requeue",
  };
  confirmAction("bulk", { request, summary: describeFilter(request.filter), words }, (operation) => navigate(hashOf(["bulk", operation.operation_id])));
}
