// What the scenarios of the portal share: an application with a link, and a receiver.

import { createHmac } from "node:crypto";
import { createServer } from "node:http";

/** Creates a caller of the API under `/api/v1`. */
export function createApi(url) {
  return async (method, path, body) => {
    const headers = body ? { "content-type": "application/json" } : {};
    const response = await fetch(new URL(`api/v1${path}`, url), { method, headers, body: body && JSON.stringify(body) });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return text === "" ? null : JSON.parse(text);
  };
}

/** Creates an application, and returns its link and its token. */
export async function createPortal(api, name, access = {}) {
  const { id } = await api("POST", "/app", { name });
  const { url, token } = await api("POST", `/auth/app-portal-access/${id}`, access);
  return { id, url, token };
}

/** Signs a token with other claims than the server would. */
export function signToken(secret, claims) {
  const encode = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const signed = `${encode({ alg: "HS256", typ: "JWT" })}.${encode(claims)}`;
  return `${signed}.${createHmac("sha256", secret).update(signed).digest("base64url")}`;
}

/** Starts a receiver that records requests and answers with `state.status`, at once or when the promise `state.gate` is fulfilled. */
export async function startReceiver() {
  const state = { requests: [], status: 200, gate: null };
  const server = createServer((request, response) => {
    const chunks = [];
    request.on("data", (chunk) => chunks.push(chunk));
    request.on("end", async () => {
      const number = state.requests.push({ path: request.url, headers: request.headers, body: Buffer.concat(chunks).toString() });
      await state.gate;
      response.writeHead(state.status).end(`answer ${number}`);
    });
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { state, url: `http://127.0.0.1:${server.address().port}/hook`, close };
}

/** Returns the number of messages among requests. Delivery is at least once, so a message may come in more requests than one. */
export function countMessages(requests) {
  return new Set(requests.map(({ headers }) => headers["webhook-id"])).size;
}

/** Returns whether a request is signed with a secret. */
export function isSignedWith(secret, { headers, body }) {
  const key = Buffer.from(secret.replace("whsec_", ""), "base64");
  const signature = createHmac("sha256", key).update(`${headers["webhook-id"]}.${headers["webhook-timestamp"]}.${body}`).digest("base64");
  return headers["webhook-signature"].split(" ").includes(`v1,${signature}`);
}
