// Whose portal this is, and what its link permits. The claims of the token only decide what is shown: the server checks every request.

import { isServerTimeKnown, serverNowMs } from "./clock.js";
import { createEndpointActions } from "./endpoint-actions.js";
import { ApiError } from "./http.js";
import { createRegistry } from "./registry.js";
import { currentToken } from "./token.js";

/** @typedef {"read" | "read_messages" | "read_secrets" | "rotate_secrets" | "manage" | "resend"} Permission */
/** @typedef {"missing" | "malformed" | "expired" | "refused" | "gone" | "forbidden"} Ending why the portal shows nothing */
/** @typedef {{ app: string, permissions: string[] | null, expiresMs: number }} Session `permissions` is null for all of them */

/** The API, with the token of the link. */
export const registry = createRegistry(currentToken);

/** What the customer does to endpoints. */
export const actions = createEndpointActions(registry, app);

/** @type {Session | null} */
let session = null;
/** @type {(ending: Ending) => void} */
let onEnd = () => {};

/** @param {(ending: Ending) => void} listener called when the link no longer works */
export function initSession(listener) {
  onEnd = listener;
}

/** Starts the session of the current token. Returns why that is not possible, or null. @returns {Ending | null} */
export function startSession() {
  const token = currentToken();
  session = token === null ? null : readClaims(token);
  if (token === null) return "missing";
  if (session === null) return "malformed";
  return isExpired() ? "expired" : null;
}

/** The id of the application that the link opens. */
export function app() {
  return session?.app ?? "";
}

/** @param {Permission} permission */
export function may(permission) {
  return session !== null && (session.permissions === null || session.permissions.includes(permission));
}

export function expiresAt() {
  return session === null ? null : new Date(session.expiresMs);
}

/** Returns whether the link has expired, by the server's clock. */
export function isExpired() {
  return session !== null && isServerTimeKnown() && session.expiresMs <= serverNowMs();
}

/** Ends the session if an error says that the link does not work. @param {any} error */
export function endIfRefused(error) {
  if (!(error instanceof ApiError) || error.status !== 401 || error.key !== currentToken()) return;
  onEnd(/expired/.test(error.message) || isExpired() ? "expired" : "refused");
}

/** Reads the claims of a token of one application. @param {string} token @returns {Session | null} */
function readClaims(token) {
  try {
    const payload = token.split(".")[1].replaceAll("-", "+").replaceAll("_", "/");
    const bytes = Uint8Array.from(atob(payload), (character) => character.charCodeAt(0));
    const { sub, org, exp, permissions } = JSON.parse(new TextDecoder().decode(bytes));
    if (typeof sub !== "string" || typeof org !== "string" || typeof exp !== "number") return null;
    return { app: sub, permissions: Array.isArray(permissions) ? permissions.map(String) : null, expiresMs: exp * 1000 };
  } catch {
    return null;
  }
}
