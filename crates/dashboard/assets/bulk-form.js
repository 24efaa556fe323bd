// The bar that repairs all dead letters of a filter: first the count, then the action at a chosen rate.

import { confirmAction } from "./actions.js";
import { countBulk } from "./api.js";
import { mayOperate } from "./caller.js";
import { describeFilter } from "./event-filter.js";
import { button, el, field, setText } from "./dom.js";
import { formatCount, formatSeconds } from "./format.js";
import { reportMissingKey } from "./problems.js";
import { hashOf, navigate } from "./router.js";

const RATE_DEFAULT = 50;
/** @type {Record<string, [string, string]>} */
const WORDS = {
  requeue: ["Requeue", "They become pending and are sent again. Their attempts are counted from zero."],
  cancel: ["Cancel", "They are not sent again unless you requeue them."],
  discard: ["Discard", "They are removed for good, with their payloads and attempts."],
};

/** @param {() => import("./filter-form.js").Filter} filter returns the filter of the list */
export function createBulkForm(filter) {
  const matched = el("b", { role: "status" }, "Counting…");
  const scope = el("span", { class: "muted" });
  const rate = el("input", { type: "number", min: "1", max: "10000", value: String(RATE_DEFAULT), inputmode: "numeric" });
  const buttons = Object.entries(WORDS).map(([action, [label]]) =>
    button(`${label} all…`, () => review(action), { class: action === "requeue" ? "main" : "danger", "data-bulk": action }));
  const root = el("section", { class: "bulk-bar", "aria-label": "All that match", hidden: true },
    el("p", {}, matched, " ", scope), field("Events per second", rate), el("div", { class: "actions" }, buttons));
  let counting = 0;

  /** Counts what the filter of the list selects, without changing anything. */
  async function count() {
    counting += 1;
    const mine = counting;
    if (!mayOperate()) {
      root.hidden = true;
      return;
    }
    try {
      const result = await countBulk({ action: "requeue", filter: filter() });
      if (mine !== counting) return;
      root.hidden = false;
      show(result);
    } catch (error) {
      if (mine === counting) showError(error);
    }
  }

  /** @param {unknown} error */
  function showError(error) {
    setText(matched, `The count failed. ${error}`);
    setText(scope, "");
    root.hidden = false;
    buttons.forEach((element) => { element.disabled = true; });
    reportMissingKey(error);
  }

  /** @param {Api.BulkCount} result */
  function show(result) {
    setText(matched, `${countText(result)} ${result.matched_count === 1 ? "dead letter matches" : "dead letters match"}`);
    setText(scope, describeFilter(filter()));
    buttons.forEach((element) => { element.disabled = result.matched_count === 0; });
  }

  /** Counts again, so that the confirmation names the number that the operation will meet. @param {string} action */
  async function review(action) {
    const request = { action, filter: filter(), rate_per_second: Math.max(1, Math.round(Number(rate.value) || RATE_DEFAULT)) };
    let result;
    try {
      result = await countBulk({ action, filter: request.filter });
    } catch (error) {
      return showError(error);
    }
    if (!root.isConnected) return;
    const [label, consequence] = WORDS[action];
    const seconds = result.matched_count / request.rate_per_second;
    const words = {
      title: `${label} ${countText(result)} ${result.matched_count === 1 ? "dead letter" : "dead letters"}?`,
      text: `${consequence} At ${formatCount(request.rate_per_second)} per second this takes about ${formatSeconds(Math.max(1, seconds))}. You can stop it at any time.`,
      label: `${label} all`,
      isDangerous: action !== "requeue",
    };
    confirmAction("bulk", { request, summary: describeFilter(request.filter), words }, (operation) => navigate(hashOf(["bulk", operation.operation_id])));
  }

  return { root, count };
}

/** @param {Api.BulkCount} count */
function countText({ matched_count: count, is_exact: isExact }) {
  return `${formatCount(count)}${isExact === false ? " or more" : ""}`;
}
