// The messages of the application: all of them, or those of one endpoint with their states.

import { button, el, field, panel, select } from "./dom.js";
import { createFilterForm } from "./filter-form.js";
import { countdown, relativeTime } from "./format.js";
import { cell } from "./list.js";
import { createPortalList } from "./portal-list.js";
import { actions, app, endIfRefused, may, registry } from "./portal-session.js";
import { statePill } from "./portal-words.js";
import { hashOf } from "./router.js";

const ENDPOINTS_MAX = 250;

/** @param {import("./router.js").Route} route @returns {View} */
export function openMessages({ query }) {
  const type = el("input", { placeholder: "Any type", value: query.get("type") ?? "", spellcheck: "false", autocomplete: "off" });
  const endpoint = select({}, [["", "Any endpoint"]], "");
  const form = createFilterForm({ label: "Filter messages", controls: { type, endpoint }, fields: [field("Event type", type), field("Endpoint", endpoint)], immediate: [endpoint], onApply: () => list.reset() });
  const wantedEndpoint = query.get("endpoint") ?? "";
  let hasEndpoints = false;
  const list = createPortalList({
    label: "Messages",
    className: "messages",
    columns: ["Message", "State and labels", "Published", ""],
    load(limit, cursor) {
      const { type: event_types, endpoint: id } = form.filter();
      return id === undefined ? registry.listMessages(app(), { limit, cursor }, { event_types })
        : registry.listMessagesOfEndpoint(app(), id, { limit, cursor }, { event_types });
    },
    keyOf: (message) => message.id,
    cells: (message) => cells(message, shownEndpoint()),
    empty: () => el("p", {}, !form.isEmpty() ? "No message matches this filter." : "No messages yet. They appear here as they are published."),
  });
  const frame = panel("Messages", list.status, button("Refresh", list.refresh, { class: "end" }));
  frame.append(list.root);
  const root = el("div", {}, el("h1", {}, "Messages"), form.root, frame);

  async function refresh() {
    if (!hasEndpoints) await loadEndpoints();
    return list.refresh();
  }

  async function loadEndpoints() {
    try {
      const { items } = await registry.listEndpoints(app(), { limit: ENDPOINTS_MAX });
      hasEndpoints = true;
      endpoint.append(...items.map(({ id, url }) => el("option", { value: id, selected: id === wantedEndpoint }, url)));
      form.reread();
    } catch (problem) {
      endIfRefused(problem);
    }
  }

  /** The endpoint whose messages are listed. */
  function shownEndpoint() {
    const { endpoint: id } = form.filter();
    const option = [...endpoint.options].find(({ value }) => value === id);
    return id && option ? { id, url: option.textContent } : null;
  }

  return { title: "Messages", root, refresh, poll: list.refreshIfIdle };
}

/** @param {Registry.Message & Partial<Registry.EndpointMessage>} message @param {{ id: string, url: string } | null} endpoint */
function cells(message, endpoint) {
  const { id, eventType, statusText, nextAttempt, timestamp } = message;
  const labels = [message.eventId, ...(message.channels ?? []), ...(message.tags ?? [])].filter(Boolean).join(", ");
  return [
    cell("event", el("a", { href: hashOf(["messages", id]), "data-open": true, title: id }, eventType), el("span", { class: "type mono", title: id }, id)),
    cell("state", statusText === undefined ? null : statePill({ statusText }), labels ? el("span", { class: "muted" }, ` ${labels}`) : null,
      nextAttempt ? el("span", { class: "muted" }, " next attempt ", countdown(nextAttempt)) : null),
    cell("when", relativeTime(timestamp)),
    cell("actions", endpoint !== null && may("resend")
      ? button("Resend", () => actions.resend(endpoint, id), { "data-action": "resend", "aria-label": `Resend ${id}` }) : null),
  ];
}
