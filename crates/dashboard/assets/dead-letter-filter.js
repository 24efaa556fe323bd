// The conditions of a dead-letter filter that the API's list lacks, applied to loaded rows. Bulk operations apply them on the server.

/** @typedef {{ destination?: string, event_type?: string, failure_kind?: string, error_class?: string, since?: string, until?: string }} Filter */

/** @param {Filter} filter */
export function hasLocalConditions(filter) {
  const { event_type: type, error_class: error, since, until, destination, failure_kind: kind } = filter;
  return Boolean(type || error || since || until || (destination && kind));
}

/** @param {any} event @param {Filter} filter */
export function matchesLocally(event, filter) {
  const kindMatches = filter.failure_kind ? event.failure_kind === filter.failure_kind : event.failure_kind !== "cancelled";
  const failedMs = Date.parse(event.updated_at);
  return kindMatches
    && (!filter.event_type || event.event_type === filter.event_type)
    && (!filter.error_class || errorMatches(event.last_error ?? "", filter.error_class))
    && (!filter.since || failedMs >= Date.parse(filter.since))
    && (!filter.until || failedMs <= Date.parse(filter.until));
}

/** `wanted` is `timeout`, `http_503` or `http_5xx`; `lastError` begins with the class or with `HTTP 503`. */
function errorMatches(lastError, wanted) {
  const [head] = lastError.split(":", 1);
  const name = head.replace(/^HTTP (\d{3})$/, "http_$1");
  return name === wanted || name.replace(/^(http_\d)\d\d$/, "$1xx") === wanted;
}

/** Says in words what a filter selects. @param {Filter} filter */
export function describeFilter(filter) {
  const { destination, app, event_type: type, failure_kind: kind, error_class: error, since, until, ...others } = /** @type {any} */ (filter ?? {});
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
