// The endpoints of one application, for operators: their state in words, and what may be done about it.

import { findDestinations, registry } from "./api.js";
import { mayOperate } from "./caller.js";
import { button, el, field, panel } from "./dom.js";
import { endpointButtons } from "./endpoint-buttons.js";
import { destinationIdOf } from "./endpoint-id.js";
import { destinationUrl } from "./format.js";
import { cell } from "./list.js";
import { createOperatorList } from "./operator-list.js";
import { hashOf, replaceQuery } from "./router.js";
import { backlogText, statePill, stateSentence } from "./trouble.js";

const APPS_MAX = 250;

/** @typedef {Registry.Endpoint & { app_id: string, destination: Api.Destination | null }} ListedEndpoint an endpoint and the state of its destination */

/** @param {import("./router.js").Route} route @returns {View} */
export function openEndpoints({ query }) {
  const app = el("input", { placeholder: "Id or uid", list: "applications", value: query.get("app") ?? "", spellcheck: "false", autocomplete: "off" });
  const options = el("datalist", { id: "applications" });
  const form = el("form", { class: "filters", role: "search", "aria-label": "Choose an application" },
    field("Application", app), options, el("button", { type: "submit" }, "Show"));
  /** @type {Registry.Application[] | null} */
  let apps = null;
  /** The application whose endpoints are listed. */
  let chosen = app.value.trim();
  const list = createOperatorList({
    label: "Endpoints",
    className: "destinations of-endpoints",
    columns: ["Endpoint", "State", "Event types", "Backlog", ""],
    load,
    keyOf: (endpoint) => endpoint.id,
    cells,
    empty: () => (apps?.length === 0
      ? el("div", {}, el("p", {}, "No applications yet. An application has endpoints, to which messages are published:"), el("p", {}, el("code", {}, "posthaste apps create shop")))
      : el("p", {}, chosen === "" ? "Choose an application." : "This application has no endpoints.")),
  });
  const frame = panel("Endpoints", list.status, button("Refresh", list.refresh, { class: "end" }));
  frame.append(list.root);
  const root = el("div", {}, el("h1", {}, "Endpoints"), form, frame);

  /** @param {number} limit @param {string | null} cursor */
  async function load(limit, cursor) {
    await loadApps();
    if (chosen === "") return { items: [], cursor: null };
    const [application, page] = await Promise.all([registry.getApplication(chosen), registry.listEndpoints(chosen, { limit, cursor })]);
    const destinations = await loadDestinations(page.items);
    const items = page.items.map((endpoint) => ({ ...endpoint, app_id: application.id, destination: destinations.get(endpoint.id) ?? null }));
    return { items, cursor: page.cursor };
  }

  /** Offers the first applications, and shows one if none is chosen. */
  async function loadApps() {
    if (apps !== null) return;
    apps = (await registry.listApplications({ limit: APPS_MAX })).items;
    options.replaceChildren(...apps.map(({ id, uid, name }) => el("option", { value: uid ?? id }, name)));
    if (chosen !== "" || app.value !== "" || apps.length === 0) return;
    app.value = chosen = apps[0].uid ?? apps[0].id;
    if (root.isConnected) replaceQuery({ app: chosen });
  }

  form.addEventListener("submit", (/** @type {SubmitEvent} */ submit) => {
    submit.preventDefault();
    chosen = app.value.trim();
    replaceQuery({ app: chosen });
    list.reset();
  });
  return { title: "Endpoints", root, refresh: list.refresh, poll: list.refreshIfIdle };
}

/** Returns the destinations of endpoints, by the id of the endpoint. @param {Registry.Endpoint[]} endpoints @returns {Promise<Map<string, Api.Destination>>} */
async function loadDestinations(endpoints) {
  const ids = endpoints.map(({ id }) => destinationIdOf(id)).filter((id) => /^[0-9]+$/.test(id));
  if (ids.length === 0) return new Map();
  const { destinations } = await findDestinations(ids);
  return new Map(destinations.map((destination) => [destination.endpoint_id ?? "", destination]));
}

/** @param {ListedEndpoint} endpoint */
function cells(endpoint) {
  const { id, url, description, destination, eventTypes, disabled } = endpoint;
  const types = eventTypes === null ? "all" : eventTypes.join(", ");
  const state = destination ?? { state: disabled ? "disabled" : "ok" };
  return [
    cell("event", el("a", { href: hashOf(["destinations", destinationIdOf(id)]), "data-open": true }, destinationUrl(url)),
      el("span", { class: "type" }, el("span", { class: "mono" }, id), description ? ` ${description}` : null)),
    cell("state", statePill(state), destination && destination.state !== "ok" ? stateSentence(destination) : null,
      destination?.last_error ? el("span", { class: "excerpt", title: destination.last_error }, destination.last_error) : null),
    cell("backlog", el("span", { class: "excerpt", title: types }, types)),
    cell("waiting", destination ? backlogText(destination) : null),
    cell("actions", mayOperate() ? endpointButtons({ id, url, app: endpoint.app_id, isDisabled: disabled }) : null),
  ];
}
