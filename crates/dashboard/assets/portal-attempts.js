// The attempts at one endpoint: their status, latency and the beginning of the response.

import { button, el, panel } from "./dom.js";
import { relativeTime } from "./format.js";
import { cell } from "./list.js";
import { createPortalList } from "./portal-list.js";
import { actions, app, may, registry } from "./portal-session.js";
import { attemptPill, latencyText } from "./portal-words.js";
import { hashOf, replaceQuery } from "./router.js";

const FILTERS = [["", "All"], ["2", "Failed"], ["0", "Succeeded"]];

/** @param {string} endpoint @param {URLSearchParams} query */
export function createAttempts(endpoint, query) {
  const given = query.get("status");
  let status = FILTERS.some(([value]) => value === given) ? String(given) : "";
  const buttons = FILTERS.map(([value, label]) => button(label, () => choose(value), { "aria-pressed": String(value === status), "data-value": value }));
  const list = createPortalList({
    label: "Attempts",
    className: "attempts",
    columns: ["Message", "Result", "Latency", "When", ""],
    load: (limit, cursor) => registry.listAttemptsOfEndpoint(app(), endpoint, { limit, cursor }, { status }),
    keyOf: (attempt) => attempt.id,
    cells,
    empty: () => el("p", {}, status === "" ? "No attempts yet. Send an example to see the first one." : "No attempt has this result."),
  });
  const root = panel("Attempts", el("div", { class: "segments end", role: "group", "aria-label": "Result" }, buttons));
  root.append(list.root);

  /** @param {string} value */
  function choose(value) {
    status = value;
    buttons.forEach((element) => element.setAttribute("aria-pressed", String(element.dataset.value === value)));
    replaceQuery({ status });
    list.reset();
  }

  return { root, refresh: list.refresh, refreshIfIdle: list.refreshIfIdle };
}

/** @param {Registry.Attempt} attempt */
function cells(attempt) {
  const { msgId, endpointId, url, msg, response, timestamp } = attempt;
  const resend = () => actions.resend({ id: endpointId, url }, msgId);
  return [
    cell("event", el("a", { href: hashOf(["messages", msgId]), "data-open": true, title: msgId }, msg?.eventType ?? msgId),
      el("span", { class: "type mono", title: msgId }, msgId)),
    cell("failure", attemptPill(attempt), response ? el("span", { class: "excerpt", title: response }, response) : null),
    cell("attempts", latencyText(attempt)),
    cell("when", relativeTime(timestamp)),
    cell("actions", may("resend") ? button("Resend", resend, { "data-action": "resend", "aria-label": `Resend ${msgId}` }) : null),
  ];
}
