// A receiver on loopback that keeps the requests it gets and answers with a status per path.

import { createServer } from "node:http";

/** How long a delivery may take to arrive, in milliseconds. */
export const TIMEOUT_MS = 60_000;

export async function startReceiver() {
  const deliveries = [];
  const statuses = new Map();
  const waiting = new Set();
  const server = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    deliveries.push({ path: request.url, headers: request.headers, body: Buffer.concat(chunks) });
    response.writeHead(statuses.get(request.url) ?? 200).end("ok");
    for (const wake of [...waiting]) wake();
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const of = (path, id) => deliveries.filter((one) => one.path === path && one.headers["webhook-id"] === id);
  return {
    of,
    url: (path) => `http://127.0.0.1:${server.address().port}${path}`,
    answer: (path, status) => statuses.set(path, status),
    /** Waits until a message has arrived this many times, and returns its deliveries. */
    waitFor: (path, id, count = 1) =>
      new Promise((resolve, reject) => {
        const limit = setTimeout(() => {
          waiting.delete(check);
          reject(new Error(`${id} arrived ${of(path, id).length} of ${count} times at ${path}`));
        }, TIMEOUT_MS);
        const check = () => {
          if (of(path, id).length < count) return;
          clearTimeout(limit);
          waiting.delete(check);
          resolve(of(path, id));
        };
        waiting.add(check);
        check();
      }),
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}
