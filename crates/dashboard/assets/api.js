// The operator's API, under `/v1/webhook-outbox`, and the key of its caller.

import { createClient, query } from "./http.js";
import { createRegistry } from "./registry.js";

// The key lives in this module only. The API reference shares the origin and runs a third party's script, which could read
// any storage of the origin.
/** @type {string | null} */
let key = null;

export function currentKey() {
  return key;
}

/** @param {string | null} value */
export function setKey(value) {
  key = value;
}

const { request, get, send } = createClient("v1/webhook-outbox/", currentKey);
/** The API of applications and endpoints, with the same key. */
export const registry = createRegistry(currentKey);

/** @typedef {string | null} Cursor */

/** Returns the name of the key, its role and what it may do. @returns {Promise<Api.Caller>} */
export const getCaller = () => get("whoami");
/** @returns {Promise<Api.Overview>} */
export const getOverview = () => get("overview");

/** @param {string} range @returns {Promise<Api.History>} */
export const getHistory = (range) => get(`history${query({ range })}`);
/** @returns {Promise<{ workers: Api.Worker[] }>} */
export const getWorkers = () => get("workers");
/** Runs the server's checks of itself. @returns {Promise<{ findings: Api.Finding[] }>} */
export const getDiagnosis = () => get("doctor");
/** Counts the destinations that need attention, and returns those with the longest backlogs. @returns {Promise<Api.Trouble>} */
export const getTrouble = () => get("trouble");

/** @param {Record<string, string>} filter @param {Cursor} cursor @returns {Promise<Api.EventPage>} */
export const listEvents = (filter, limit = 50, cursor = null) => get(`events${query({ ...filter, limit, cursor })}`);
/** @param {Record<string, string>} filter @param {Cursor} cursor @returns {Promise<Api.EventPage>} */
export const listDeadLetters = (filter, limit = 50, cursor = null) => get(`dlq${query({ ...filter, limit, cursor })}`);
/** @param {string} eventId @returns {Promise<Api.EventDetail>} */
export const getEvent = (eventId) => get(`events/${encodeURIComponent(eventId)}`);
/** The server records each look. @param {string} eventId @returns {Promise<Api.EventContent>} */
export const getEventContent = (eventId) => get(`events/${encodeURIComponent(eventId)}/content`);
/** @param {string} event in JSON @param {string} idempotencyKey @returns {Promise<{ event_id: string }>} */
export const enqueueEvent = (event, idempotencyKey) => send("POST", "events", event, idempotencyKey);

// The actions on an event. The server applies an action once per idempotency key, and repeats its response.

/** @param {string} eventId @param {string} idempotencyKey */
export const requeueEvent = (eventId, idempotencyKey) => send("POST", `dlq/${encodeURIComponent(eventId)}/requeue`, null, idempotencyKey);
/** @param {string} eventId @param {string} reason @param {string} idempotencyKey */
export const cancelEvent = (eventId, reason, idempotencyKey) =>
  send("POST", `events/${encodeURIComponent(eventId)}/cancel`, reason ? { reason } : null, idempotencyKey);
/** @param {string} eventId @param {string} idempotencyKey */
export const replayEvent = (eventId, idempotencyKey) => send("POST", `events/${encodeURIComponent(eventId)}/replay`, null, idempotencyKey);
/** @param {string} eventId @param {string} reason @param {string} idempotencyKey */
export const discardEvent = (eventId, reason, idempotencyKey) =>
  send("POST", `dlq/${encodeURIComponent(eventId)}/discard`, reason ? { reason } : null, idempotencyKey);

/** @param {string} state @param {Cursor} cursor @returns {Promise<Api.DestinationPage>} */
export const listDestinations = (state, limit = 50, cursor = null) => get(`destinations${query({ state, limit, cursor })}`);
/** @param {string[]} ids at most 200 @returns {Promise<Api.DestinationPage>} */
export const findDestinations = (ids) => get(`destinations${query({ ids: ids.join(",") })}`);
/** @param {string} id @returns {Promise<Api.DestinationDetail>} */
export const getDestination = (id) => get(`destinations/${encodeURIComponent(id)}`);
/** @param {string} id */
export const resumeDestination = (id) => send("POST", `destinations/${encodeURIComponent(id)}/resume`);
/** @param {string} id @returns {Promise<{ probed: boolean, reason: string | null }>} */
export const probeDestination = (id) => send("POST", `destinations/${encodeURIComponent(id)}/probe`);
/** @param {string} id @param {{reason?: string, seconds?: number}} pause */
export const pauseDestination = (id, pause) => send("POST", `destinations/${encodeURIComponent(id)}/pause`, pause);

// Operations on all dead letters that match a filter.

/** Counts what an operation would change. @param {object} operation @returns {Promise<Api.BulkCount>} */
export const countBulk = (operation) => send("POST", "bulk", { ...operation, dry_run: true });
/** The server starts one operation per idempotency key. @param {object} operation @param {string} idempotencyKey */
export const startBulk = (operation, idempotencyKey) => send("POST", "bulk", operation, idempotencyKey);
/** @param {Cursor} cursor @param {string} [state] only operations in this state @returns {Promise<Api.BulkPage>} */
export const listBulk = (limit = 50, cursor = null, state = "") => get(`bulk${query({ state, limit, cursor })}`);
/** @param {string} id @returns {Promise<Api.Bulk>} */
export const getBulk = (id) => get(`bulk/${encodeURIComponent(id)}`);
/** @param {string} id */
export const stopBulk = (id) => send("POST", `bulk/${encodeURIComponent(id)}/stop`);

/** Lists the recoveries of endpoints. @param {Cursor} cursor @param {string} [state] @returns {Promise<Api.OperationPage>} */
export const listOperations = (limit = 50, cursor = null, state = "") => get(`operations${query({ state, limit, cursor })}`);
/** @param {string} id */
export const stopOperation = (id) => send("POST", `operations/${encodeURIComponent(id)}/stop`);

/**
 * Opens the notice stream and returns its body. Uses fetch, because an EventSource cannot send the key.
 * @param {string} lastEventId @param {AbortSignal} signal
 */
export async function openStream(lastEventId, signal) {
  /** @type {Record<string, string>} */
  const headers = { accept: "text/event-stream" };
  if (lastEventId) headers["last-event-id"] = lastEventId;
  const { body } = await request("stream", { headers, signal });
  if (body === null) throw new Error("the stream has no body");
  return body;
}
