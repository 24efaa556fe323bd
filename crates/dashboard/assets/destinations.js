// All destinations, those in trouble first.

import { confirmAction } from "./actions.js";
import { listDestinations } from "./api.js";
import { mayOperate } from "./caller.js";
import { button, el, panel } from "./dom.js";
import { destinationUrl, formatCount } from "./format.js";
import { cell, createList } from "./list.js";
import { hashOf, replaceQuery } from "./router.js";
import { TROUBLE_STATES, backlogText, statePill, stateSentence } from "./trouble.js";

const TROUBLE_MAX = 200;
const STATES = [["", "All"], ["circuit_open", "Circuit open"], ["failing", "Failing"], ["disabled", "Disabled"], ["paused", "Paused"], ["ok", "OK"]];

/** @param {import("./router.js").Route} route @returns {import("./app.js").View} */
export function openDestinations({ query }) {
  let state = query.get("state") ?? "";
  const buttons = STATES.map(([value, label]) => {
    const element = button(label, () => choose(value), { "aria-pressed": String(value === state), "data-value": value });
    return element;
  });
  const list = createList({
    label: "Destinations",
    className: "destinations",
    columns: ["Destination", "State", "Backlog", "In flight", ""],
    load,
    keyOf: (destination) => destination.destination_id,
    cells,
    empty: () => el("p", {}, state ? "No destination is in this state." : "No destinations yet. The first event to a URL creates one."),
  });

  /** Without a chosen state: the destinations in trouble, then page by page those that are ok. */
  async function load(limit, cursor) {
    if (state) return page(await listDestinations(state, limit, cursor));
    const ok = page(await listDestinations("ok", limit, cursor));
    if (cursor !== null) return ok;
    const troubled = await Promise.all(TROUBLE_STATES.map((name) => listDestinations(name, TROUBLE_MAX)));
    return { items: [...troubled.flatMap((found) => found.destinations), ...ok.items], cursor: ok.cursor };
  }

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

function page({ destinations, next_cursor: cursor }) {
  return { items: destinations, cursor };
}

function cells(destination) {
  const { in_flight: inFlight, window, last_error: error } = destination;
  return [
    cell("event", el("a", { href: hashOf(["destinations", destination.destination_id]), "data-open": true }, destinationUrl(destination.url)),
      destination.endpoint_id ? el("span", { class: "type mono" }, destination.endpoint_id) : null),
    cell("state", statePill(destination), destination.state === "ok" ? null : stateSentence(destination),
      error ? el("span", { class: "excerpt", title: error }, error) : null),
    cell("backlog", backlogText(destination)),
    cell("attempts", `${formatCount(inFlight)}${window === null ? "" : ` of ${formatCount(window)}`}`),
    cell("actions", mayOperate() ? destinationButtons(destination) : null),
  ];
}

/** The buttons of a destination: what may be done in its state. */
export function destinationButtons(destination) {
  const { state, url, endpoint_id: endpoint } = destination;
  const named = (label) => ({ "aria-label": `${label} ${url}` });
  const buttons = [];
  if (state === "paused" || state === "circuit_open") buttons.push(button("Resume", () => confirmAction("resume", destination), named("Resume")));
  if (state !== "paused" && state !== "disabled") buttons.push(button("Pause", () => confirmAction("pause", destination), named("Pause")));
  buttons.push(el("a", { class: "button", href: hashOf(["dead-letters"], { destination: endpoint ?? url }), ...named("Requeue all of") }, "Requeue all…"));
  return buttons;
}
