// The token of a portal link. It leaves the address bar before anything else happens, and lives only in the memory of this module.

const PREFIX = "#token=";

/** @type {string | null} */
let token = null;

/** Takes the token out of the address, if it is there. */
export function takeToken() {
  if (!location.hash.startsWith(PREFIX)) return false;
  token = location.hash.slice(PREFIX.length);
  history.replaceState(null, "", `${location.pathname}${location.search}#/`);
  return true;
}

export function currentToken() {
  return token;
}

takeToken();
