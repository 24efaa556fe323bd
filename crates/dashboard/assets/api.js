// A client of the public API. An error response becomes an ApiError, any other failure a NetworkError.

import { updateServerClock } from "./clock.js";

const BASE = new URL("v1/webhook-outbox/", document.baseURI);
const KEY_NAME = "posthaste-api-key";
const TIMEOUT_MS = 15000;

/** An error response of the API. `key` is the API key that the request was sent with. */
export class ApiError extends Error {
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

/** No response arrived, or it did not come from the API. */
class NetworkError extends Error {
  toString() {
    return this.message;
  }
}

// If the browser denies session storage, the key lasts until the page is reloaded.
let key = null;
try {
  key = sessionStorage.getItem(KEY_NAME);
} catch {}

export function currentKey() {
  return key;
}

export function setKey(value) {
  key = value;
  try {
    if (value === null) sessionStorage.removeItem(KEY_NAME);
    else sessionStorage.setItem(KEY_NAME, value);
  } catch {}
}

/** Returns the name of the key, its role and what it may do. */
export function getCaller() {
  return requestJson("whoami");
}

export function getOverview() {
  return requestJson("overview");
}

export function listDeadLetters(limit, cursor, withCancelled) {
  const query = new URLSearchParams({ limit });
  if (!withCancelled) query.set("failure_kind", "not_cancelled");
  if (cursor) query.set("cursor", cursor);
  return requestJson(`dlq?${query}`);
}

export function listDestinations(state) {
  return requestJson(`destinations?state=${state}&limit=10`);
}

export function resumeDestination(id) {
  return requestJson(`destinations/${encodeURIComponent(id)}/resume`, { method: "POST" });
}

export function getEvent(eventId) {
  return requestJson(`events/${encodeURIComponent(eventId)}`);
}

// The actions on an event. The server applies an action once per `idempotencyKey`, and repeats its response.

export function requeueEvent(eventId, idempotencyKey) {
  return postAction(`dlq/${encodeURIComponent(eventId)}/requeue`, "", idempotencyKey);
}

export function cancelEvent(eventId, reason, idempotencyKey) {
  return postAction(`events/${encodeURIComponent(eventId)}/cancel`, reason, idempotencyKey);
}

export function discardEvent(eventId, reason, idempotencyKey) {
  return postAction(`dlq/${encodeURIComponent(eventId)}/discard`, reason, idempotencyKey);
}

function postAction(path, reason, idempotencyKey) {
  const headers = { "idempotency-key": idempotencyKey };
  if (reason === "") return requestJson(path, { method: "POST", headers });
  headers["content-type"] = "application/json";
  return requestJson(path, { method: "POST", headers, body: JSON.stringify({ reason }) });
}

/** Opens the notice stream and returns its body. Uses fetch, because an EventSource cannot send the key. */
export async function openStream(lastEventId, signal) {
  const headers = { accept: "text/event-stream" };
  if (lastEventId) headers["last-event-id"] = lastEventId;
  const response = await request("stream", { headers, signal });
  return response.body;
}

async function requestJson(path, options = {}) {
  const response = await request(path, { ...options, signal: AbortSignal.timeout(TIMEOUT_MS) });
  try {
    return await response.json();
  } catch {
    throw new NetworkError("The response is not JSON, so it did not come from the API.");
  }
}

async function request(path, { headers = {}, ...options }) {
  const usedKey = key;
  const authorization = usedKey === null ? {} : { authorization: `Bearer ${usedKey}` };
  let response;
  try {
    response = await fetch(new URL(path, BASE), { cache: "no-store", headers: { ...headers, ...authorization }, ...options });
  } catch (error) {
    const timedOut = error.name === "TimeoutError";
    throw new NetworkError(timedOut ? `No response within ${TIMEOUT_MS / 1000} s.` : "The server did not respond.");
  }
  updateServerClock(response.headers.get("date"));
  if (!response.ok) throw await toApiError(response, usedKey);
  return response;
}

async function toApiError(response, usedKey) {
  const body = await response.json().catch(() => null);
  const { code, message } = body?.error ?? {};
  if (typeof message === "string") return new ApiError(response.status, String(code ?? ""), message, usedKey);
  return new ApiError(response.status, "", `HTTP ${response.status} without an error message.`, usedKey);
}
