// Addresses of views: `#/events/ID` or `#/events?status=failed`. View and filters are in the URL, so a link shows what its author saw.

/** @typedef {{ view: string, id: string | null, query: URLSearchParams }} Route */

/** @param {string[]} path @param {Record<string, string | null | undefined>} query */
export function hashOf(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value);
  const text = given.length > 0 ? `?${new URLSearchParams(/** @type {any} */ (given))}` : "";
  return `#/${path.map(encodeURIComponent).join("/")}${text}`;
}

/** @returns {Route} */
export function currentRoute() {
  // Links of earlier versions.
  const old = /^#event=(.+)$/.exec(location.hash);
  if (old) history.replaceState(null, "", `#/events/${old[1]}`);
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const [view, id] = path.split("/");
  return { view: view || "overview", id: id ? decode(id) : null, query: new URLSearchParams(query) };
}

/** @param {string} hash */
export function navigate(hash) {
  location.hash = hash;
}

/** Replaces the filters in the URL, without a step in the browser's history. @param {Record<string, string | null | undefined>} query */
export function replaceQuery(query) {
  const { view, id } = currentRoute();
  history.replaceState(null, "", hashOf(id === null ? [view] : [view, id], query));
}

/** @param {string} text */
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
