// All destinations, those in trouble first.

import { confirmAction } from "./actions.js";
import { listDestinations } from "./api.js";
import { mayOperate } from "./caller.js";
import { button, el, panel } from "./dom.js";
import { destinationUrl, formatCount, lookUp } from "./format.js";
import { cell } from "./list.js";
import { createOperatorList } from "./operator-list.js";
import { hashOf, replaceQuery } from "./router.js";
import { TROUBLE_STATES, backlogText, recentText, statePill, stateSentence } from "./trouble.js";

const STATES = [["", "All"], ["held", "Held"], ["circuit_open", "Circuit open"], ["failing", "Failing"], ["disabled", "Disabled"], ["paused", "Paused"], ["ok", "OK"]];
/** The states that a choice lists, one after the other. @type {Record<string, string[]>} */
const LISTED = { "": [...TROUBLE_STATES, "ok"], held: ["circuit_open", "disabled", "paused"] };

/** @param {import("./router.js").Route} route @returns {View} */
export function openDestinations({ query }) {
  let state = query.get("state") ?? "";
  const buttons = STATES.map(([value, label]) => {
    const element = button(label, () => choose(value), { "aria-pressed": String(value === state), "data-value": value });
    return element;
  });
  const list = createOperatorList({
    label: "Destinations",
    className: "destinations",
    columns: ["Destination", "State", "Backlog", "In flight", ""],
    load,
    keyOf: (destination) => destination.destination_id,
    cells,
    empty: () => el("p", {}, state ? "No destination is in this state." : "No destinations yet. The first event to a URL creates one."),
  });

  /** Lists one state after the other. The cursor has the position of the state, and the cursor within it. @param {number} limit @param {string | null} cursor */
  async function load(limit, cursor) {
    const states = lookUp(LISTED, state, [state]);
    /** @type {[number, string | null]} */
    let [position, after] = cursor === null ? [0, null] : JSON.parse(cursor);
    /** @type {Api.Destination[]} */
    const items = [];
    while (position < states.length && items.length < limit) {
      const page = await listDestinations(states[position], limit - items.length, after);
      items.push(...page.destinations);
      after = page.next_cursor;
      if (after === null) position += 1;
    }
    return { items, cursor: position < states.length ? JSON.stringify([position, after]) : null };
  }

  /** @param {string} value */
  function choose(value) {
    state = value;
    buttons.forEach((element) => element.setAttribute("aria-pressed", String(element.dataset.value === value)));
    replaceQuery({ state });
    list.reset();
  }

  const frame = panel("Destinations", list.status, button("Refresh", list.refresh, { class: "end" }));
  frame.append(list.root);
  const root = el("div", {}, el("h1", {}, "Destinations"),
    el("div", { class: "segments", role: "group", "aria-label": "State" }, buttons), frame);
  return { title: "Destinations", root, refresh: list.refresh, poll: list.refreshIfIdle };
}

/** @param {Api.Destination} destination */
function cells(destination) {
  const { in_flight: inFlight, window, last_error: error } = destination;
  const recent = recentText(destination);
  return [
    cell("event", el("a", { href: hashOf(["destinations", destination.destination_id]), "data-open": true }, destinationUrl(destination.url)),
      destination.endpoint_id ? el("span", { class: "type mono" }, destination.endpoint_id) : null),
    cell("state", statePill(destination), destination.state === "ok" ? null : stateSentence(destination),
      error ? el("span", { class: "excerpt", title: error }, error) : null),
    cell("backlog", backlogText(destination)),
    cell("attempts", el("span", { title: window === null ? null : "requests in flight, and how many may be" }, `${formatCount(inFlight)}${window === null ? "" : ` of ${formatCount(window)}`}`),
      recent ? el("span", { class: "type" }, recent) : null),
    cell("actions", mayOperate() ? destinationButtons(destination) : null),
  ];
}

/** The buttons of a destination: what may be done in its state. @param {Api.Destination} destination */
export function destinationButtons(destination) {
  const { state, url, endpoint_id: endpoint } = destination;
  const named = (/** @type {string} */ label) => ({ "aria-label": `${label} ${url}` });
  const buttons = [];
  if (state === "circuit_open") buttons.push(button("Probe now", () => confirmAction("probe", destination), { ...named("Probe"), "data-action": "probe" }));
  if (state === "paused" || state === "circuit_open") buttons.push(button("Resume", () => confirmAction("resume", destination), named("Resume")));
  if (state !== "paused" && state !== "disabled") buttons.push(button("Pause", () => confirmAction("pause", destination), named("Pause")));
  buttons.push(el("a", { class: "button", href: hashOf(["dead-letters"], { destination: endpoint ?? url }), ...named("Requeue all of"), "data-action": "requeue" }, "Requeue all…"));
  return buttons;
}
