// Follows the stream of notices for as long as the page is open, and resumes it where it broke.

import { ApiError, openStream } from "./api.js";

const WAIT_MS_FIRST = 1000;
const WAIT_MS_MAX = 30000;
// A server that keeps its streams alive says something every few seconds.
const SILENCE_MS_MAX = 60000;
const LINE_CHARS_MAX = 1 << 20;

/**
 * `onNotice` gets each notice, `onState` one of `connecting`, `live`, `waiting`, `refused`, and `onRefused` the
 * refusal that ended the following. The answer starts it again, at once.
 */
export function follow({ onNotice, onState, onRefused }) {
  let lastEventId = "";
  let running = null;

  function start() {
    running?.abort();
    running = new AbortController();
    run(running.signal);
  }

  async function run(stopped) {
    let waitMs = WAIT_MS_FIRST;
    while (!stopped.aborted) {
      onState("connecting");
      try {
        await once(stopped, () => { waitMs = WAIT_MS_FIRST; });
      } catch (error) {
        if (stopped.aborted) return;
        if (error instanceof ApiError && (error.status === 401 || error.status === 403)) {
          onState("refused");
          onRefused(error);
          return;
        }
        // The place to resume from may be what is wrong.
        if (error instanceof ApiError && error.status < 500) lastEventId = "";
      }
      if (stopped.aborted) return;
      onState("waiting");
      await new Promise((resume) => setTimeout(resume, waitMs * (0.75 + Math.random() / 2)));
      waitMs = Math.min(waitMs * 2, WAIT_MS_MAX);
    }
  }

  async function once(stopped, onHeard) {
    const silence = new AbortController();
    let timer = setTimeout(() => silence.abort(), SILENCE_MS_MAX);
    try {
      const body = await openStream(lastEventId, AbortSignal.any([stopped, silence.signal]));
      onState("live");
      const reader = body.pipeThrough(new TextDecoderStream()).getReader();
      const parse = parser(lastEventId);
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        clearTimeout(timer);
        timer = setTimeout(() => silence.abort(), SILENCE_MS_MAX);
        onHeard();
        for (const { id, data } of parse(value)) {
          // Also without data: the stream begins by saying where it is.
          if (/^[\x21-\x7e]*$/.test(id)) lastEventId = id;
          const notice = readNotice(data);
          if (notice) onNotice(notice);
        }
      }
    } finally {
      clearTimeout(timer);
    }
  }

  start();
  return start;
}

function readNotice(data) {
  try {
    const notice = JSON.parse(data);
    return typeof notice?.webhook_delivery_id === "string" ? notice : null;
  } catch {
    return null;
  }
}

/** Server-Sent Events out of pieces of text, as the HTML standard reads them: without `data`, an event is only its id. */
export function parser(id) {
  let rest = "";
  let data = [];

  return function* (text) {
    rest += text;
    // A carriage return at the end may be half of a line's end.
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
