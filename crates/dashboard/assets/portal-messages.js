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
  const wantedEndpoint = query.get("endpoint") ?? "";
  // The endpoint of the link is chosen before the endpoints are loaded, and also if it is not among the first.
  const endpoint = select({}, [["", "Any endpoint"], ...(wantedEndpoint ? [[wantedEndpoint, wantedEndpoint]] : [])], wantedEndpoint);
  const form = createFilterForm({ label: "Filter messages", controls: { type, endpoint }, fields: [field("Event type", type), field("Endpoint", endpoint)], immediate: [endpoint], onApply: () => list.reset() });
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
    cells: (message) => cells(message, resendTo(form.filter().endpoint)),
    empty: () => el("p", {}, !form.isEmpty() ? "No message matches this filter." : "No messages yet. They appear here as they are published."),
  });
  const frame = panel("Messages", list.status, button("Refresh", list.refresh, { class: "end" }));
  frame.append(list.root);
  const root = el("div", {}, el("h1", {}, "Messages"), form.root, frame);

  function refresh() {
    loadEndpoints();
    return list.refresh();
  }

  /** Fills the choice of endpoints once. After an error, the next call tries again. */
  async function loadEndpoints() {
    if (hasEndpoints) return;
    hasEndpoints = true;
    try {
      const { items } = await registry.listEndpoints(app(), { limit: ENDPOINTS_MAX });
      for (const { id, url } of items) {
        const option = optionOf(id);
        if (option) option.textContent = url;
        else endpoint.append(el("option", { value: id }, url));
      }
    } catch (problem) {
      hasEndpoints = false;
      endIfRefused(problem);
    }
  }

  /** @param {string} id @returns {HTMLOptionElement | undefined} */
  function optionOf(id) {
    return [...endpoint.options].find(({ value }) => value === id);
  }

  /** Returns what sends a message to an endpoint again; null without an endpoint. @param {string | undefined} id @returns {((message: string) => void) | null} */
  function resendTo(id) {
    return id === undefined ? null : (message) => actions.resend({ id, url: optionOf(id)?.textContent ?? id }, message);
  }

  return {
    title: "Messages",
    root,
    refresh,
    poll() {
      loadEndpoints();
      list.refreshIfIdle();
    },
  };
}

/** @param {Registry.Message & Partial<Registry.EndpointMessage>} message @param {((message: string) => void) | null} resend */
function cells(message, resend) {
  const { id, eventType, statusText, nextAttempt, timestamp } = message;
  const labels = [message.eventId, ...(message.channels ?? []), ...(message.tags ?? [])].filter(Boolean).join(", ");
  return [
    cell("event", el("a", { href: hashOf(["messages", id]), "data-open": true, title: id }, eventType), el("span", { class: "type mono", title: id }, id)),
    cell("state", statusText === undefined ? null : statePill({ statusText }), labels ? el("span", { class: "muted" }, ` ${labels}`) : null,
      nextAttempt ? el("span", { class: "muted" }, " next attempt ", countdown(nextAttempt)) : null),
    cell("when", relativeTime(timestamp)),
    cell("actions", resend !== null && may("resend")
      ? button("Resend", () => resend(id), { "data-action": "resend", "aria-label": `Resend ${id}` }) : null),
  ];
}
