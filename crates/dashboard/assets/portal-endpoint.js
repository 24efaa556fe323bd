// The page of one endpoint: its state, what happened in the last day, its secret, its headers and its attempts.

import { serverNowMs } from "./clock.js";
import { button, el, panel, setError, updateElement } from "./dom.js";
import { destinationUrl, formatCount, relativeTime } from "./format.js";
import { createSequence } from "./latest.js";
import { createAttempts } from "./portal-attempts.js";
import { createHeadersPanel } from "./portal-headers.js";
import { createSecretPanel } from "./portal-secret.js";
import { actions, app, endIfRefused, may, registry } from "./portal-session.js";
import { createTaskLine } from "./portal-task.js";
import { endpointPill, endpointSentence, typesText } from "./portal-words.js";
import { hashOf, navigate } from "./router.js";

const DAY_MS = 86400000;
const TYPES_MAX = 250;

/** @param {import("./router.js").Route} route @returns {View} */
export function openEndpoint({ id, query }) {
  const endpointId = String(id);
  const error = el("p", { class: "error", role: "alert", hidden: true });
  const loading = el("p", { class: "empty skeleton" }, "Loading…");
  const head = el("div", { class: "stack" });
  const facts = el("dl", { class: "facts" });
  const details = panel("Details");
  details.append(facts);
  const secret = createSecretPanel(endpointId);
  const headers = createHeadersPanel(endpointId);
  const attempts = may("read_messages") ? createAttempts(endpointId, query) : null;
  const task = createTaskLine();
  const side = el("div", { class: "stack" }, details, may("read_secrets") || may("rotate_secrets") ? secret.root : null, headers.root);
  const body = el("div", { class: "columns endpoint-columns", hidden: true }, attempts?.root ?? null, side);
  const root = el("div", {}, el("a", { class: "up", href: "#/" }, "← Endpoints"), error, loading, head, task.root, body);
  /** @type {Registry.Endpoint | null} */
  let endpoint = null;
  let version = "";
  const send = createSequence();

  async function refresh() {
    attempts?.refresh();
    headers.refresh();
    await refreshHead();
  }

  async function refreshHead() {
    const mayShow = send();
    try {
      const since = new Date(serverNowMs() - DAY_MS).toISOString();
      const [found, stats] = await Promise.all([registry.getEndpoint(app(), endpointId), registry.getStats(app(), endpointId, since)]);
      if (!mayShow()) return;
      setError(error, null);
      endpoint = found;
      show(found, stats);
    } catch (problem) {
      endIfRefused(problem);
      if (!mayShow()) return;
      setError(error, String(problem));
    }
    loading.hidden = true;
    body.hidden = endpoint === null;
  }

  /** @param {Registry.Endpoint} shown @param {Registry.EndpointStats} stats */
  function show(shown, stats) {
    const current = JSON.stringify([shown, stats]);
    if (current === version) return;
    version = current;
    secret.setEndpoint(shown);
    updateElement(head, el("div", {},
      el("h1", { class: "event-title" }, destinationUrl(shown.url), endpointPill(shown)),
      el("p", { class: "explanation" }, shown.description ? `${shown.description} — ` : null, endpointSentence(shown, stats)),
      el("div", { class: "actions" }, actionsOf(shown)),
      statTiles(stats)));
    facts.replaceChildren(...factRows(shown));
  }

  /** @param {Registry.Endpoint} shown */
  function actionsOf(shown) {
    const start = (/** @type {string} */ taskId) => task.follow(taskId);
    const example = button("Send example", () => openExample(shown, example), { class: "main", "data-action": "example" });
    const sends = may("resend") ? [
      shown.disabled ? null : example,
      button("Recover failed…", () => actions.recover(shown, start), { "data-action": "recover" }),
      button("Send missing…", () => actions.replayMissing(shown, start), { "data-action": "replay" }),
    ] : [];
    const changes = may("manage") ? [
      el("a", { class: "button", href: hashOf(["edit", shown.id]) }, "Edit"),
      shown.disabled ? button("Enable", () => actions.enable(shown), { class: "main", "data-action": "enable" })
        : button("Disable", () => actions.disable(shown), { "data-action": "disable" }),
      button("Delete", () => actions.delete(shown, () => navigate("#/")), { class: "danger", "data-action": "delete" }),
    ] : [];
    return [...sends, ...changes];
  }

  /** Asks for the event types, and then for one of them. @param {Registry.Endpoint} shown @param {HTMLButtonElement} opener */
  async function openExample(shown, opener) {
    opener.disabled = true;
    try {
      const types = shown.eventTypes ?? (await registry.listEventTypes({ limit: TYPES_MAX })).items.map(({ name }) => name);
      if (root.isConnected) actions.sendExample(shown, types, (message) => navigate(hashOf(["messages", message.id])));
    } catch (problem) {
      endIfRefused(problem);
      setError(error, String(problem));
    }
    opener.disabled = false;
  }

  return {
    title: "Endpoint",
    root,
    refresh,
    poll() {
      attempts?.refreshIfIdle();
      headers.refresh();
      refreshHead();
    },
    onTick: task.poll,
  };
}

/** @param {Registry.EndpointStats} stats */
function statTiles({ success, pending, sending, fail }) {
  const tile = (/** @type {string} */ name, /** @type {number} */ value, /** @type {string} */ color) =>
    el("div", { class: "tile" }, el("span", { class: "name" }, name), el("span", { class: `value ${value > 0 ? color : "zero"}` }, formatCount(value)));
  return el("section", { class: "tiles four", "aria-label": "Messages of the last day" },
    tile("Delivered, last day", success, "ok-value"), tile("Waiting", pending, ""), tile("Retrying", sending, "warn"), tile("Failed, last day", fail, "bad"));
}

/** @param {Registry.Endpoint} endpoint */
function factRows(endpoint) {
  const fields = [
    ["Event types", typesText(endpoint)],
    ["Channels", endpoint.channels?.join(", ")],
    ["Rate", endpoint.throttleRate === null ? null : `${formatCount(endpoint.throttleRate)} messages per second at most`],
    ["Order", endpoint.ordering === "fifo" ? "one message at a time, as published" : null],
    ["Id", el("span", { class: "mono" }, endpoint.id)],
    ["Your id", endpoint.uid],
    ["Created", relativeTime(endpoint.createdAt)],
    ["Changed", relativeTime(endpoint.updatedAt)],
  ];
  return fields.filter(([, value]) => value).map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)));
}
