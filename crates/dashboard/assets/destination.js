// The page of one destination: its state in words, its backlog, and what operators did to it.

import { getDestination } from "./api.js";
import { mayOperate } from "./caller.js";
import { el, panel, setError } from "./dom.js";
import { destinationUrl, formatCount, relativeTime } from "./format.js";
import { destinationButtons } from "./destinations.js";
import { reportMissingKey } from "./problems.js";
import { hashOf } from "./router.js";
import { backlogText, statePill, stateSentence } from "./trouble.js";

/** @param {import("./router.js").Route} route @returns {import("./app.js").View} */
export function openDestination({ id }) {
  const body = el("div", { class: "stack" }, el("p", { class: "empty skeleton" }, "Loading…"));
  const error = el("p", { class: "error", role: "alert", hidden: true });
  const root = el("div", {}, el("a", { class: "up", href: "#/destinations" }, "← Destinations"), error, body);
  let version = "";

  async function refresh() {
    try {
      const destination = await getDestination(String(id));
      setError(error, null);
      const current = JSON.stringify([destination, mayOperate()]);
      if (current === version) return;
      version = current;
      show(destination);
    } catch (problem) {
      setError(error, problem.status === 401 ? null : String(problem));
      if (version === "") body.replaceChildren();
      reportMissingKey(problem);
    }
  }

  function show(destination) {
    const focused = body.contains(document.activeElement) ? document.activeElement?.textContent : null;
    const details = panel("Details");
    details.append(el("dl", { class: "facts" }, factRows(destination)));
    const audit = panel("What operators did");
    audit.append(auditList(destination.audit ?? []));
    body.replaceChildren(
      el("h1", { class: "event-title" }, destinationUrl(destination.url), statePill(destination)),
      el("p", { class: "explanation" }, stateSentence(destination)),
      el("p", { class: "actions" }, mayOperate() ? destinationButtons(destination) : null),
      el("div", { class: "columns" }, details, audit));
    if (focused) [...body.querySelectorAll("button, a")].find((element) => element.textContent === focused)?.focus();
  }

  return { title: "Destination", root, refresh };
}

function factRows(destination) {
  const { url, window, endpoint_id: endpoint } = destination;
  const events = (status, text) => el("a", { href: hashOf(["events"], endpoint ? { status, endpoint_id: endpoint } : { status, destination: url }) }, text);
  const fields = [
    ["Backlog", backlogText(destination)],
    ["In flight", formatCount(destination.in_flight)],
    ["Window", window === null ? "not limited" : `${formatCount(window)} requests at once`],
    ["Last error", destination.last_error],
    ["Failing since", destination.failing_since && relativeTime(destination.failing_since)],
    ["Endpoint", endpoint],
    ["Application", destination.app_id],
    ["Events", el("span", {}, events("pending", "pending"), ", ", events("failed", "failed"), ", ", events("delivered", "delivered"))],
  ];
  return fields.filter(([, value]) => value).map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)));
}

function auditList(audit) {
  if (audit.length === 0) return el("p", { class: "empty" }, "No operator has touched this destination.");
  return el("ul", { class: "plain-list" }, [...audit].reverse().map(({ action, actor, at, reason, paused_until: until }) =>
    el("li", {}, el("p", {}, el("b", {}, action.replace("_", " ")), ` by ${actor}, `, relativeTime(at)),
      reason ? el("p", { class: "muted" }, reason) : null, until ? el("p", { class: "muted" }, "Until ", relativeTime(until)) : null)));
}
