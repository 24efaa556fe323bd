// A client of the public API. An error response becomes an ApiError, any other failure a NetworkError.

import { updateServerClock } from "./clock.js";

const BASE = new URL("v1/webhook-outbox/", document.baseURI);
const TIMEOUT_MS = 15000;

/** An error response of the API. `key` is the API key that the request was sent with. */
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

/** No response arrived, or it did not come from the API. */
class NetworkError extends Error {
  toString() {
    return this.message;
  }
}

// The key lives in this module only. The API reference shares the origin and runs a third party's script, which could read
// any storage of the origin.
/** @type {string | null} */
let key = null;
/** Routes that this server does not have: older than the page, or built without them. */
const absent = new Set();

export function currentKey() {
  return key;
}

/** @param {string | null} value */
export function setKey(value) {
  key = value;
  absent.clear();
}

/** Returns the name of the key, its role and what it may do. */
export const getCaller = () => requestJson("whoami");
export const getOverview = () => requestJson("overview");

// Parts of the page that a server may lack: null instead of an error.

/** @param {string} range */
export const getHistory = (range) => optional("history", `history${query({ range })}`);
export const getWorkers = () => optional("workers", "workers");
export const getDiagnosis = () => optional("doctor", "doctor");

/** @param {{status?: string, destination?: string, endpoint_id?: string}} filter */
export function listEvents(filter, limit = 50, cursor = null) {
  return requestJson(`events${query({ ...filter, limit, cursor })}`);
}

/** @param {string} failureKind */
export function listDeadLetters(failureKind, limit = 50, cursor = null) {
  return requestJson(`dlq${query({ failure_kind: failureKind, limit, cursor })}`);
}

/** @param {string} eventId */
export const getEvent = (eventId) => requestJson(`events/${encodeURIComponent(eventId)}`);
/** @param {object} event @param {string} idempotencyKey */
export const enqueueEvent = (event, idempotencyKey) => post("events", event, idempotencyKey);

// The actions on an event. The server applies an action once per idempotency key, and repeats its response.

export const requeueEvent = (eventId, idempotencyKey) => post(`dlq/${encodeURIComponent(eventId)}/requeue`, null, idempotencyKey);
export const cancelEvent = (eventId, reason, idempotencyKey) =>
  post(`events/${encodeURIComponent(eventId)}/cancel`, reason ? { reason } : null, idempotencyKey);
export const discardEvent = (eventId, reason, idempotencyKey) =>
  post(`dlq/${encodeURIComponent(eventId)}/discard`, reason ? { reason } : null, idempotencyKey);

export const listDestinations = (state, limit = 50, cursor = null) => requestJson(`destinations${query({ state, limit, cursor })}`);
export const getDestination = (id) => requestJson(`destinations/${encodeURIComponent(id)}`);
export const resumeDestination = (id) => post(`destinations/${encodeURIComponent(id)}/resume`, null);
/** @param {string} id @param {{reason?: string, seconds?: number}} pause */
export const pauseDestination = (id, pause) => post(`destinations/${encodeURIComponent(id)}/pause`, pause);

// Operations on all dead letters that match a filter.

/** Counts what an operation would change. Null without bulk operations. */
export const countBulk = (operation) => optional("bulk", "bulk", jsonBody({ ...operation, dry_run: true }));
/** The server starts one operation per idempotency key. */
export const startBulk = (operation, idempotencyKey) => post("bulk", operation, idempotencyKey);
export const listBulk = (limit = 50, cursor = null) => optional("bulk", `bulk${query({ limit, cursor })}`);
export const getBulk = (id) => requestJson(`bulk/${encodeURIComponent(id)}`);
export const stopBulk = (id) => post(`bulk/${encodeURIComponent(id)}/stop`, null);

/** Unlike `randomUUID`, this also exists on pages that were loaded without TLS. */
export function randomKey() {
  return crypto.getRandomValues(new BigUint64Array(2)).join("-");
}

/** Opens the notice stream and returns its body. Uses fetch, because an EventSource cannot send the key. */
export async function openStream(lastEventId, signal) {
  const headers = { accept: "text/event-stream" };
  if (lastEventId) headers["last-event-id"] = lastEventId;
  const response = await request("stream", { headers, signal });
  return response.body;
}

function query(parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return given.length > 0 ? `?${new URLSearchParams(given)}` : "";
}

/** Returns null if the server lacks the route, and then asks for it no more. */
async function optional(route, path, options) {
  if (absent.has(route)) return null;
  try {
    return await requestJson(path, options);
  } catch (error) {
    if (!(error instanceof ApiError) || (error.status !== 404 && error.status !== 405)) throw error;
    absent.add(route);
    return null;
  }
}

function jsonBody(value) {
  return { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(value) };
}

function post(path, body, idempotencyKey) {
  const options = body === null ? { method: "POST", headers: {} } : jsonBody(body);
  if (idempotencyKey) options.headers["idempotency-key"] = idempotencyKey;
  return requestJson(path, options);
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
