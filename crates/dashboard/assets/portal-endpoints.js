// The endpoints of the application, and the way to a new one.

import { button, el, panel } from "./dom.js";
import { destinationUrl, relativeTime } from "./format.js";
import { cell } from "./list.js";
import { createPortalList } from "./portal-list.js";
import { app, may, registry } from "./portal-session.js";
import { endpointPill, endpointSentence, typesText } from "./portal-words.js";
import { hashOf } from "./router.js";

/** @returns {View} */
export function openEndpoints() {
  const add = () => (may("manage") ? el("a", { class: "button main", href: "#/new" }, "Add an endpoint") : null);
  const list = createPortalList({
    label: "Endpoints",
    className: "endpoints",
    columns: ["Endpoint", "State", "Event types", "Created"],
    load: (limit, cursor) => registry.listEndpoints(app(), { limit, cursor }),
    keyOf: (endpoint) => endpoint.id,
    cells,
    empty: () => el("div", { class: "welcome" }, el("h2", {}, "No endpoints yet"),
      el("p", {}, "An endpoint is a URL of yours that gets a request for every event."), add()),
  });
  const frame = panel("Endpoints", list.status, button("Refresh", list.refresh, { class: "end" }));
  frame.append(list.root);
  const root = el("div", {}, el("div", { class: "title-row" }, el("h1", {}, "Endpoints"), add()), frame);
  return { title: "Endpoints", root, refresh: list.refresh, poll: list.refreshIfIdle };
}

/** @param {Registry.Endpoint} endpoint */
function cells(endpoint) {
  return [
    cell("event", el("a", { href: hashOf(["endpoints", endpoint.id]), "data-open": true }, destinationUrl(endpoint.url)),
      endpoint.description ? el("span", { class: "type", title: endpoint.description }, endpoint.description) : null),
    cell("state", endpointPill(endpoint), endpoint.disabled ? el("span", { class: "sentence" }, endpointSentence(endpoint)) : null),
    cell("types", el("span", { class: "excerpt", title: typesText(endpoint) }, typesText(endpoint))),
    cell("when", relativeTime(endpoint.createdAt)),
  ];
}
