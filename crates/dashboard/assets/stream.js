// Follows the notice stream. After a disconnect, it resumes from the last event id.

import { openStream } from "./api.js";
import { ApiError } from "./http.js";

const RECONNECT_MS_MIN = 1000;
const RECONNECT_MS_MAX = 30000;
// The server sends a comment every 15 seconds; a longer silence means a dead connection.
const SILENCE_MS_MAX = 60000;
// After a longer pause, such as that of a computer that slept, the missed notices may be millions, and are news no more.
const PAUSE_MS_MAX = 60000;
// A browser opens six connections to a server, for all its tabs together. Hidden tabs leave theirs to the others.
const HIDDEN_MS_MAX = 5000;
const LINE_CHARS_MAX = 1 << 20;

/** @typedef {"connecting" | "live" | "waiting" | "paused" | "rejected"} ConnectionState */
/**
 * Calls `onNotice` with each notice, `onState` with the state of the connection, and `onRejected` with the 401 or 403 error that
 * ended the stream. Calls `onReset` when notices may be missing, because the server's log of notices was rewound or because the
 * stream was away for long. Without a stream while the page is hidden. Returns a function that reconnects.
 * @param {{ onNotice: (notice: Api.Notice) => void, onState: (state: ConnectionState) => void, onRejected: (error: ApiError) => void, onReset: () => void }} listeners
 */
export function followStream({ onNotice, onState, onRejected, onReset }) {
  let lastEventId = "";
  let lastDataAtMs = Date.now();
  /** @type {AbortController | null} */
  let current = null;
  /** @type {number | undefined} */
  let hiddenTimer;

  function restart() {
    current?.abort();
    current = new AbortController();
    run(current.signal);
    followVisibility();
  }

  function pause() {
    current?.abort();
    onState("paused");
  }

  function followVisibility() {
    clearTimeout(hiddenTimer);
    if (document.hidden) hiddenTimer = setTimeout(pause, HIDDEN_MS_MAX);
    else if (current?.signal.aborted) restart();
  }

  function forgetOldPosition() {
    if (lastEventId === "" || Date.now() - lastDataAtMs < PAUSE_MS_MAX) return;
    lastEventId = "";
    onReset();
  }

  /** @param {AbortSignal} stopped */
  async function run(stopped) {
    let delayMs = RECONNECT_MS_MIN;
    while (!stopped.aborted) {
      onState("connecting");
      forgetOldPosition();
      try {
        await readStream(stopped, () => { delayMs = RECONNECT_MS_MIN; });
      } catch (error) {
        if (stopped.aborted) return;
        if (error instanceof ApiError && (error.status === 401 || error.status === 403)) {
          onState("rejected");
          onRejected(error);
          return;
        }
        // The last event id may be what the API rejects.
        if (error instanceof ApiError && error.status < 500) lastEventId = "";
      }
      if (stopped.aborted) return;
      onState("waiting");
      await new Promise((resume) => setTimeout(resume, delayMs * (0.75 + Math.random() / 2)));
      delayMs = Math.min(delayMs * 2, RECONNECT_MS_MAX);
    }
  }

  /** @param {AbortSignal} stopped @param {() => void} onData */
  async function readStream(stopped, onData) {
    const silence = new AbortController();
    let timer = setTimeout(() => silence.abort(), SILENCE_MS_MAX);
    try {
      const body = await openStream(lastEventId, AbortSignal.any([stopped, silence.signal]));
      onState("live");
      const reader = body.pipeThrough(/** @type {ReadableWritablePair<string, Uint8Array<ArrayBuffer>>} */ (/** @type {unknown} */ (new TextDecoderStream()))).getReader();
      const read = createParser(lastEventId);
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        clearTimeout(timer);
        timer = setTimeout(() => silence.abort(), SILENCE_MS_MAX);
        lastDataAtMs = Date.now();
        onData();
        for (const { id, data } of read(value)) {
          // The stream's first event has an id but no data.
          if (/^[\x21-\x7e]*$/.test(id)) lastEventId = id;
          const message = parse(data);
          if (message?.type === "NoticeLogResetEvent") onReset();
          else if (typeof message?.webhook_delivery_id === "string") onNotice(message);
        }
      }
    } finally {
      clearTimeout(timer);
    }
  }

  document.addEventListener("visibilitychange", followVisibility);
  restart();
  return restart;
}

/** Returns null for an event without data, and for what is not JSON. @param {string} data @returns {any} */
function parse(data) {
  try {
    return JSON.parse(data);
  } catch {
    return null;
  }
}

/** Returns a parser of Server-Sent Events, fed in chunks. It also yields events without data. @param {string} id the id before the first event */
function createParser(id) {
  let rest = "";
  /** @type {string[]} */
  let data = [];

  return function* (/** @type {string} */ chunk) {
    rest += chunk;
    // A carriage return at the end may be the first half of CRLF.
    const held = rest.endsWith("\r") ? "\r" : "";
    const lines = (held ? rest.slice(0, -1) : rest).split(/\r\n|\n|\r/);
    rest = lines.pop() + held;
    if (rest.length > LINE_CHARS_MAX) throw new Error("a line of the stream is too long");
    for (const line of lines) {
      if (line === "") {
        yield { id, data: data.join("\n") };
        data = [];
        continue;
      }
      const colon = line.indexOf(":");
      const field = colon === -1 ? line : line.slice(0, colon);
      const value = colon === -1 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
      if (field === "data") data.push(value);
      else if (field === "id" && !value.includes("\0")) id = value;
    }
  };
}
