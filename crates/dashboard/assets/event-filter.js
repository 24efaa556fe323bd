// The conditions that events and dead letters share: their fields, and what they say in words.

import { el, field, select } from "./dom.js";
import { localTimeOf } from "./filter-form.js";
import { formatCount } from "./format.js";

const KINDS = [["", "Not cancelled"], ["exhausted", "Exhausted"], ["abandoned", "Abandoned"], ["gone", "Gone"], ["expired", "Expired"], ["cancelled", "Cancelled"]];
const ERRORS = ["http_5xx", "http_4xx", "http_500", "http_502", "http_503", "timeout", "connect", "dns", "tls", "certificate", "reset", "blocked_address"];

/** Creates the fields of conditions, filled from the URL. @param {URLSearchParams} query @param {string} anyKind the label of no failure kind */
export function createConditions(query, anyKind) {
  const input = (/** @type {string} */ name, /** @type {Record<string, string>} */ attributes) =>
    el("input", { spellcheck: "false", autocomplete: "off", name, value: query.get(name) ?? "", ...attributes });
  const time = (/** @type {string} */ name) => {
    const value = localTimeOf(query.get(name));
    // A field with seconds is wider: only a link has some.
    return input(name, { type: "datetime-local", value, step: value.length > "2026-01-31T12:00".length ? "1" : "60" });
  };
  /** @type {Record<string, HTMLInputElement | HTMLSelectElement>} */
  const controls = {
    destination: input("destination", { placeholder: "URL or endpoint id" }),
    app: input("app", { placeholder: "Id or uid" }),
    event_type: input("event_type", { placeholder: "Any type" }),
    failure_kind: select({ name: "failure_kind" }, KINDS.map(([value, label]) => [value, value === "" ? anyKind : label]), query.get("failure_kind") ?? ""),
    error_class: input("error_class", { placeholder: "Any error", list: "error-classes" }),
    since: time("since"),
    until: time("until"),
  };
  const fields = [
    field("Destination", controls.destination), field("Application", controls.app), field("Event type", controls.event_type), field("Failure", controls.failure_kind),
    field("Error", controls.error_class), field("Since", controls.since), field("Until", controls.until),
    el("datalist", { id: "error-classes" }, ERRORS.map((value) => el("option", { value }))),
  ];
  return { controls, fields };
}

/** Says where the events of an endpoint are, for a filter that has a URL. @param {import("./filter-form.js").Filter} filter */
export function hintOn({ destination }) {
  if (!/^https?:/i.test(destination ?? "")) return null;
  return el("p", {}, "A URL selects the events that were enqueued to it. The events of an endpoint have the endpoint's id: ", el("a", { href: "#/endpoints" }, "Endpoints"), " lists them.");
}

/** How many dead letters a filter selects. The server stops counting at a limit. @param {Api.BulkCount} count */
export function matchedText({ matched_count: count, is_exact: isExact }) {
  return `${formatCount(count)}${isExact === false ? " or more" : ""}`;
}

/** Says in words what a filter of dead letters selects. @param {import("./filter-form.js").Filter} filter */
export function describeFilter(filter) {
  const { destination, app, event_type: type, failure_kind: kind, error_class: error, since, until, ...others } = filter ?? {};
  const parts = [
    kind ? `kind ${kind}` : "every kind but cancelled",
    destination ? `destination ${destination}` : null,
    app ? `application ${app}` : null,
    type ? `type ${type}` : null,
    error ? `error ${error}` : null,
    since ? `since ${since}` : null,
    until ? `until ${until}` : null,
    ...Object.entries(others).map(([name, value]) => `${name} ${value}`),
  ];
  return parts.filter(Boolean).join(", ");
}
