// The public API, and the key it is asked with. Every refusal leaves here as an ApiError, everything else that goes
// wrong as Unreachable.

import { learn } from "./clock.js";

const BASE = new URL("v1/webhook-outbox/", document.baseURI);
const KEY_NAME = "posthaste-api-key";
const TIMEOUT_MS = 15000;

/** The API answered, and said no. */
export class ApiError extends Error {
  constructor(status, code, message, key) {
    super(message);
    this.status = status;
    this.code = code;
    this.key = key;
  }

  /** As the API gave it. */
  toString() {
    return this.code ? `${this.message} (${this.code})` : this.message;
  }
}

/** There was no answer, or none that an API gives. */
export class Unreachable extends Error {
  toString() {
    return this.message;
  }
}

// Where the browser refuses to keep anything, the key lives as long as the page.
let key = null;
try {
  key = sessionStorage.getItem(KEY_NAME);
} catch {}

export function currentKey() {
  return key;
}

export function useKey(value) {
  key = value;
  try {
    if (value === null) sessionStorage.removeItem(KEY_NAME);
    else sessionStorage.setItem(KEY_NAME, value);
  } catch {}
}

export function readOverview() {
  return json("overview");
}

export function readDeadLetters(limit, cursor) {
  const query = new URLSearchParams({ limit });
  if (cursor) query.set("cursor", cursor);
  return json(`dlq?${query}`);
}

export function readEvent(eventId) {
  return json(`events/${encodeURIComponent(eventId)}`);
}

export function requeue(eventId) {
  return json(`dlq/${encodeURIComponent(eventId)}/requeue`, { method: "POST" });
}

export function cancel(eventId, reason) {
  const said = reason === "" ? {} : { body: JSON.stringify({ reason }), headers: { "content-type": "application/json" } };
  return json(`events/${encodeURIComponent(eventId)}/cancel`, { method: "POST", ...said });
}

/** The body of the stream of notices. Headers, because an EventSource could not send the key. */
export async function openStream(lastEventId, signal) {
  const headers = { accept: "text/event-stream" };
  if (lastEventId) headers["last-event-id"] = lastEventId;
  const response = await send("stream", { headers, signal });
  return response.body;
}

async function json(path, options = {}) {
  const response = await send(path, { ...options, signal: AbortSignal.timeout(TIMEOUT_MS) });
  try {
    return await response.json();
  } catch {
    throw new Unreachable("What answered is not the API: its answer is not JSON.");
  }
}

async function send(path, { headers = {}, ...options }) {
  const asked = key;
  const authorization = asked === null ? {} : { authorization: `Bearer ${asked}` };
  let response;
  try {
    response = await fetch(new URL(path, BASE), { cache: "no-store", headers: { ...headers, ...authorization }, ...options });
  } catch (error) {
    throw new Unreachable(error.name === "TimeoutError" ? `No answer within ${TIMEOUT_MS / 1000} s.` : "No answer from the server.");
  }
  learn(response.headers.get("date"));
  if (!response.ok) throw await refusal(response, asked);
  return response;
}

async function refusal(response, asked) {
  const answer = await response.json().catch(() => null);
  const { code, message } = answer?.error ?? {};
  if (typeof message === "string") return new ApiError(response.status, String(code ?? ""), message, asked);
  return new ApiError(response.status, "", `HTTP ${response.status}, without a reason.`, asked);
}
