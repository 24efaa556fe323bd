// The page of one destination: its state in words, its backlog, and what operators did to it.

import { getDestination } from "./api.js";
import { mayOperate } from "./caller.js";
import { el, panel, setError, updateElement } from "./dom.js";
import { recoveryButtons, stateButtons } from "./endpoint-buttons.js";
import { countdown, destinationUrl, formatCount, formatExact, relativeTime } from "./format.js";
import { destinationButtons } from "./destinations.js";
import { hasStatus } from "./http.js";
import { createSequence } from "./latest.js";
import { reportMissingKey } from "./problems.js";
import { hashOf } from "./router.js";
import { backlogText, disableReason, recentText, statePill, stateSentence } from "./trouble.js";

/** @param {import("./router.js").Route} route @returns {View} */
export function openDestination({ id }) {
  const body = el("div", { class: "stack" }, el("p", { class: "empty skeleton" }, "Loading…"));
  const error = el("p", { class: "error", role: "alert", hidden: true });
  const root = el("div", {}, el("a", { class: "up", href: "#/destinations" }, "← Destinations"), error, body);
  const send = createSequence();
  let version = "";

  async function refresh() {
    const mayShow = send();
    try {
      const destination = await getDestination(String(id));
      if (!mayShow()) return;
      setError(error, null);
      const current = JSON.stringify([destination, mayOperate()]);
      if (current === version) return;
      version = current;
      show(destination);
    } catch (problem) {
      if (!mayShow()) return;
      setError(error, hasStatus(problem, 401) ? null : String(problem));
      if (version === "") body.replaceChildren();
      reportMissingKey(problem);
    }
  }

  /** @param {Api.DestinationDetail} destination */
  function show(destination) {
    const details = panel("Details");
    details.append(el("dl", { class: "facts" }, factRows(destination)));
    const audit = panel("What operators did");
    audit.append(auditList(destination.audit ?? []));
    updateElement(body, el("div", {},
      el("h1", { class: "event-title" }, destinationUrl(destination.url), statePill(destination)),
      el("p", { class: "explanation" }, stateSentence(destination)),
      el("p", { class: "actions" }, mayOperate() ? buttonsOf(destination) : null),
      el("div", { class: "columns" }, details, audit)));
  }

  return { title: "Destination", root, refresh };
}

/** @param {Api.Destination} destination */
function buttonsOf(destination) {
  const { endpoint_id: id, app_id: app, url, disabled } = destination;
  if (id === null || app === null) return destinationButtons(destination);
  const endpoint = { id, url, app, isDisabled: disabled !== null };
  return [...destinationButtons(destination), ...stateButtons(endpoint), ...recoveryButtons(endpoint)];
}

/** @param {Api.Destination} destination */
function factRows(destination) {
  const { url, state, since, window, endpoint_id: endpoint, app_id: app, disabled } = destination;
  const time = (/** @type {string | null} */ at) => at && el("span", {}, relativeTime(at), el("span", { class: "muted exact" }, formatExact(at)));
  const events = (/** @type {string} */ status, /** @type {string} */ text) => el("a", { href: hashOf(["events"], endpoint ? { status, endpoint_id: endpoint } : { status, destination: url }) }, text);
  const fields = [
    ["Backlog", backlogText(destination)],
    ["In flight", formatCount(destination.in_flight)],
    ["Window", window && `${formatCount(window)} ${window === 1 ? "request" : "requests"} at once`],
    ["Recent requests", recentText(destination)],
    ["Last error", destination.last_error],
    ["Failing since", time(destination.failing_since)],
    ["Circuit open since", state === "circuit_open" ? time(since) : null],
    ["Next probe", destination.next_probe_at && countdown(destination.next_probe_at)],
    ["Paused since", state === "paused" ? time(since) : null],
    ["Paused until", state === "paused" ? time(destination.paused_until) ?? "an operator resumes it" : null],
    ["Disabled", disabled && el("span", {}, disableReason(disabled.reason), ", ", relativeTime(disabled.at))],
    ["Endpoint", endpoint && el("span", { class: "mono" }, endpoint)],
    ["Application", app && el("a", { href: hashOf(["endpoints"], { app }), title: "All endpoints of this application" }, app)],
    ["Events", el("span", {}, events("pending", "pending"), ", ", events("failed", "failed"), ", ", events("delivered", "delivered"))],
  ];
  return fields.filter(([, value]) => value).map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)));
}

/** @param {Api.DestinationAudit[]} audit */
function auditList(audit) {
  if (audit.length === 0) return el("p", { class: "empty" }, "No operator has touched this destination.");
  return el("ul", { class: "plain-list" }, [...audit].reverse().map(({ action, actor, at, reason, paused_until: until }) =>
    el("li", {}, el("p", {}, el("b", {}, action.replace("_", " ")), ` by ${actor}, `, relativeTime(at)),
      reason ? el("p", { class: "muted" }, reason) : null, until ? el("p", { class: "muted" }, "Until ", relativeTime(until)) : null)));
}
