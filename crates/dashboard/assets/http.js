// Requests to an API of this server. An error response becomes an ApiError, any other failure a NetworkError.

import { updateServerClock } from "./clock.js";

const TIMEOUT_MS = 15000;

/** An error response of the API. `key` is the key or token that the request was sent with. */
export class ApiError extends Error {
  /** @param {number} status @param {string} code @param {string} message @param {string | null} key */
  constructor(status, code, message, key) {
    super(message);
    this.status = status;
    this.code = code;
    this.key = key;
  }

  toString() {
    return this.code ? `${this.message} (${this.code})` : this.message;
  }
}

/** Returns whether an error is a response of the API with this status. @param {unknown} error @param {number} status */
export function hasStatus(error, status) {
  return error instanceof ApiError && error.status === status;
}

/** No response arrived, or it did not come from the API. */
class NetworkError extends Error {
  toString() {
    return this.message;
  }
}

/** @typedef {{ method?: string, headers?: Record<string, string>, body?: string, signal?: AbortSignal }} RequestOptions */

/**
 * Creates a client of the API below a path of this server.
 * @param {string} path @param {() => string | null} bearer returns the key or token of the next request
 */
export function createClient(path, bearer) {
  const base = new URL(path, document.baseURI);

  /** @param {string} path @param {RequestOptions} options @returns {Promise<Response>} */
  async function request(path, { headers = {}, ...options }) {
    const used = bearer();
    /** @type {Record<string, string>} */
    const authorization = used === null ? {} : { authorization: `Bearer ${used}` };
    let response;
    try {
      response = await fetch(new URL(path, base), { cache: "no-store", headers: { ...headers, ...authorization }, ...options });
    } catch (error) {
      const timedOut = error instanceof Error && error.name === "TimeoutError";
      throw new NetworkError(timedOut ? `No response within ${TIMEOUT_MS / 1000} s.` : "The server did not respond.");
    }
    updateServerClock(response.headers.get("date"));
    if (!response.ok) throw await toApiError(response, used);
    return response;
  }

  /** Returns a response as it was sent, and its value; null for a response without content. @param {string} path @param {RequestOptions} [options] @returns {Promise<{ text: string, value: any }>} */
  async function getWithText(path, options = {}) {
    const response = await request(path, { ...options, signal: AbortSignal.timeout(TIMEOUT_MS) });
    if (response.status === 204) return { text: "", value: null };
    try {
      const text = await response.text();
      return { text, value: JSON.parse(text) };
    } catch {
      throw new NetworkError("The response is not JSON, so it did not come from the API.");
    }
  }

  /** @param {string} path @param {RequestOptions} [options] @returns {Promise<any>} null for a response without content */
  async function get(path, options = {}) {
    return (await getWithText(path, options)).value;
  }

  /**
   * Sends a change. The server applies it once per idempotency key, and repeats its response.
   * @param {string} method @param {string} path @param {object | string | null} [body] a text is sent as it is @param {string} [idempotencyKey] @returns {Promise<any>}
   */
  function send(method, path, body = null, idempotencyKey = "") {
    /** @type {Record<string, string>} */
    const headers = idempotencyKey ? { "idempotency-key": idempotencyKey } : {};
    if (body === null) return get(path, { method, headers });
    return get(path, { method, headers: { ...headers, "content-type": "application/json" }, body: typeof body === "string" ? body : JSON.stringify(body) });
  }

  return { request, get, getWithText, send };
}

/** Returns a query without its empty parameters. @param {Record<string, any>} parameters */
export function query(parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return given.length > 0 ? `?${new URLSearchParams(given)}` : "";
}

/** Returns an idempotency key. Unlike `randomUUID`, this also exists on pages that were loaded without TLS. */
export function randomKey() {
  return crypto.getRandomValues(new BigUint64Array(2)).join("-");
}

/** Reads the error forms of both APIs: `{error: {code, message}}`, `{code, detail}` and `{detail: [{loc, msg}]}`. */
async function toApiError(/** @type {Response} */ response, /** @type {string | null} */ used) {
  const body = await response.json().catch(() => null);
  const { code, message = body?.detail } = body?.error ?? body ?? {};
  if (typeof message === "string") return new ApiError(response.status, String(code ?? ""), message, used);
  if (Array.isArray(message) && message.length > 0) {
    const texts = message.map(({ loc, msg }) => (Array.isArray(loc) && loc.length > 1 ? `${loc.slice(1).join(".")}: ${msg}` : String(msg)));
    return new ApiError(response.status, "", texts.join(" "), used);
  }
  return new ApiError(response.status, "", `HTTP ${response.status} without an error message.`, used);
}
