// Destinations that hold their events back: paused, or behind an open circuit.

import { listDestinations } from "./api.js";
import { mayOperate } from "./caller.js";
import { byId, el, setText } from "./dom.js";
import { destinationUrl, formatCount, relativeTime } from "./format.js";

let handlers;
let shown = "";

/** Calls `onAction(name, destination)` for a button, and `onError(error)` after a failed request. */
export function initHeld(callbacks) {
  handlers = callbacks;
}

/** Shows the destinations while the overview counts held events. */
export async function showHeld(overview) {
  if (!(overview.held_count > 0)) {
    byId("held").hidden = true;
    return;
  }
  const more = overview.held_count_capped ? " or more" : "";
  const noun = overview.held_count === 1 ? "event waits" : "events wait";
  setText(byId("held-size"), `${formatCount(overview.held_count)}${more} ${noun}`);
  try {
    const pages = await Promise.all(["paused", "circuit_open"].map((state) => listDestinations(state)));
    showRows(pages.flatMap((page) => page.destinations));
  } catch (error) {
    handlers.onError(error);
  }
}

/** Rows that are shown already stay, so that a button keeps the focus. */
function showRows(destinations) {
  byId("held").hidden = destinations.length === 0;
  const text = JSON.stringify([mayOperate(), ...destinations.map(({ oldest_pending_age_seconds, ...rest }) => rest)]);
  if (text === shown) return;
  shown = text;
  byId("held-rows").replaceChildren(...destinations.map(row));
}

function row(destination) {
  const resume = el("button", { type: "button" }, "Resume");
  resume.addEventListener("click", () => handlers.onAction("resume", destination));
  const waiting = `${formatCount(destination.pending_count)}${destination.pending_count_capped ? "+" : ""} waiting`;
  const facts = [destination.reason ?? destination.state, waiting];
  const probe = destination.next_probe_at ? [", next probe ", relativeTime(destination.next_probe_at)] : [];
  const since = destination.since ? [", since ", relativeTime(destination.since)] : [];
  return el("li", {},
    el("div", {}, destinationUrl(destination.url), el("p", { class: "muted" }, facts.join(", "), ...since, ...probe)),
    ...(mayOperate() ? [resume] : []));
}
