// Follows the notice stream. After a disconnect, it resumes from the last event id.

import { ApiError, openStream } from "./api.js";

const RECONNECT_MS_MIN = 1000;
const RECONNECT_MS_MAX = 30000;
// The server sends a comment every 15 seconds; a longer silence means a dead connection.
const SILENCE_MS_MAX = 60000;
const LINE_CHARS_MAX = 1 << 20;

/**
 * Calls `onNotice` with each notice, `onState` with `connecting`, `live`, `waiting` or `rejected`, and `onRejected` with the
 * 401 or 403 error that ended the stream. Returns a function that reconnects.
 */
export function followStream({ onNotice, onState, onRejected }) {
  let lastEventId = "";
  let current = null;

  function restart() {
    current?.abort();
    current = new AbortController();
    run(current.signal);
  }

  async function run(stopped) {
    let delayMs = RECONNECT_MS_MIN;
    while (!stopped.aborted) {
      onState("connecting");
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

  async function readStream(stopped, onData) {
    const silence = new AbortController();
    let timer = setTimeout(() => silence.abort(), SILENCE_MS_MAX);
    try {
      const body = await openStream(lastEventId, AbortSignal.any([stopped, silence.signal]));
      onState("live");
      const reader = body.pipeThrough(new TextDecoderStream()).getReader();
      const parse = createParser(lastEventId);
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        clearTimeout(timer);
        timer = setTimeout(() => silence.abort(), SILENCE_MS_MAX);
        onData();
        for (const { id, data } of parse(value)) {
          // The stream's first event has an id but no data.
          if (/^[\x21-\x7e]*$/.test(id)) lastEventId = id;
          const notice = parseNotice(data);
          if (notice) onNotice(notice);
        }
      }
    } finally {
      clearTimeout(timer);
    }
  }

  restart();
  return restart;
}

function parseNotice(data) {
  try {
    const notice = JSON.parse(data);
    return typeof notice?.webhook_delivery_id === "string" ? notice : null;
  } catch {
    return null;
  }
}

/** Returns a parser of Server-Sent Events, fed in chunks. It also yields events without data. */
function createParser(id) {
  let rest = "";
  let data = [];

  return function* (chunk) {
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
