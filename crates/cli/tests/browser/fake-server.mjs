// A server with the page's real files and an API that a scenario makes up. It sends no content security policy.

import { createServer } from "node:http";

// As often as the real server. The page takes a stream that is silent for longer for a dead one, and opens another.
const HEARTBEAT_MS = 15000;
const NOT_FOUND = { error: { code: "not_found", message: "there is no such route" } };

/** An answer with another status than 200. */
export function refuse(status, message) {
  return { status, error: { code: "refused", message } };
}

/** The overview of a server with nothing to complain about. Without one, a banner moves the page. */
export const CALM = {
  pending_count: 0, pending_ready_count: 0, retrying_count: 0, failed_count: 0, cancelled_count: 0, delivered_count: 9, held_count: 0, held_count_capped: false, oldest_held_age_seconds: null, oldest_pending_age_seconds: null,
};

/** Reads what a request sends, as JSON. */
async function bodyOf(request) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  return chunks.length > 0 ? JSON.parse(Buffer.concat(chunks).toString()) : null;
}

/**
 * Serves the files of `url`. `answer` returns the body for a path of the API and the body of the request, or a promise of it; null is
 * an error 404, whose body `unknown` returns. `stream` writes to the response of the notice stream. `dateMs` is the server's clock.
 */
export async function serveFake(url, answer, { stream = () => {}, unknown = () => NOT_FOUND, dateMs = Date.now } = {}) {
  const server = createServer(async (request, response) => {
    if (!request.url.startsWith("/v1/") && !request.url.startsWith("/api/")) {
      const file = await fetch(new URL(request.url, url));
      response.writeHead(file.status, { "content-type": file.headers.get("content-type") });
      response.end(Buffer.from(await file.arrayBuffer()));
    } else if (request.url.includes("/stream")) {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.flushHeaders();
      const heartbeat = setInterval(() => response.write(": heartbeat\n\n"), HEARTBEAT_MS);
      response.on("close", () => clearInterval(heartbeat));
      stream(response);
    } else {
      const body = await answer(request.url, await bodyOf(request), request);
      response.writeHead(body ? body.status && body.error ? body.status : 200 : 404, { "content-type": "application/json", date: new Date(dateMs()).toUTCString() });
      response.end(JSON.stringify(body ?? unknown()));
    }
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { base: `http://127.0.0.1:${server.address().port}/`, close };
}
