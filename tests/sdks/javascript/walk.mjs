// Walks the whole API with the JavaScript SDK and verifies each delivery with the SDK's own verifier.
// Usage: node walk.mjs SERVER TOKEN MODULES, where MODULES is the directory in which npm installed the SDK.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";

import { TIMEOUT_MS, startReceiver } from "./receiver.mjs";

const [server, token, modules] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const { Svix, Webhook, WebhookVerificationError } = require("svix");
const { version } = require("svix/package.json");

const svix = new Svix(token, { serverUrl: server });
const receiver = await startReceiver();
const SECRET = `whsec_${"c2VjcmV0".repeat(5)}`;
const started = new Date(Date.now() - 60_000);
let verified = 0;

/** Asserts that the server refuses a call. */
async function refused(status, code, call) {
  await assert.rejects(call, (error) => {
    assert.deepEqual([error.code, error.body?.code], [status, code], JSON.stringify(error.body));
    assert.ok(error.body.detail, "an error explains itself");
    return true;
  });
}

/** Asserts that the server refuses a value at a location of the request. */
async function invalid(location, call) {
  await assert.rejects(call, (error) => {
    assert.equal(error.code, 422);
    assert.deepEqual(error.body.detail[0].loc, location, JSON.stringify(error.body));
    return true;
  });
}

/** Verifies a delivery under each secret. */
function verify(delivery, ...secrets) {
  for (const secret of secrets) {
    new Webhook(secret).verify(delivery.body, delivery.headers);
    verified += 1;
  }
}

/** Repeats a call until it returns something. */
async function until(what, probe) {
  for (const deadline = Date.now() + TIMEOUT_MS; Date.now() < deadline; await sleep(50)) {
    const found = await probe();
    if (found) return found;
  }
  throw new Error(`${what} did not happen within ${TIMEOUT_MS} ms`);
}

/** Lists in pages of two, to the end and back, and returns the keys of all items. */
async function pages(fetch, key = (item) => item.id) {
  const forward = [];
  let page;
  do {
    page = await fetch(page?.iterator ?? undefined);
    assert.ok(page.data.length <= 2);
    forward.push(page.data.map(key));
  } while (!page.done);
  if (forward.length > 1) {
    const back = await fetch(page.prevIterator);
    assert.deepEqual(back.data.map(key), forward.at(-2));
  }
  return forward.flat();
}

async function walkEventTypes() {
  const [name, spare] = ["invoice.paid.js", "invoice.sent.js"];
  const schemas = { 1: { type: "object", examples: [{ invoice: 17 }] } };
  const created = await svix.eventType.create({ name, description: "An invoice was paid", schemas });
  assert.equal(created.name, name);
  await refused(409, "event_type_exists", () => svix.eventType.create({ name, description: "again" }));
  assert.equal((await svix.eventType.update(spare, { description: "An invoice was sent" })).name, spare);
  assert.equal((await svix.eventType.update(spare, { description: "Sent" })).description, "Sent");
  assert.equal((await svix.eventType.patch(spare, { description: "Sent out" })).description, "Sent out");
  assert.equal((await svix.eventType.get(spare)).description, "Sent out");
  const list = (iterator) => svix.eventType.list({ limit: 2, iterator, withContent: true });
  const names = await pages(list, (item) => item.name);
  assert.ok(names.includes(name) && names.includes(spare));
  assert.deepEqual(names, [...names].sort());
  await svix.eventType.delete(spare);
  const has = (listed) => listed.data.some((item) => item.name === spare);
  assert.ok(!has(await svix.eventType.list({ limit: 250 })));
  assert.ok(has(await svix.eventType.list({ limit: 250, includeArchived: true })));
  assert.equal((await svix.eventType.create({ name: spare, description: "Sent" })).archived, false);
  await svix.eventType.delete(spare, { expunge: true });
  await refused(404, "not_found", () => svix.eventType.get(spare));
  return name;
}

async function walkApplications() {
  const uid = "customer-js";
  const app = await svix.application.create({ name: "Customer", uid, metadata: { plan: "pro" } });
  assert.ok(app.id.startsWith("app_"));
  await refused(409, "conflict", () => svix.application.create({ name: "Another", uid }));
  assert.equal((await svix.application.getOrCreate({ name: "Another", uid })).id, app.id);
  const key = { idempotencyKey: "key-js" };
  const first = await svix.application.create({ name: "Once" }, key);
  assert.equal((await svix.application.create({ name: "Twice" }, key)).id, first.id, "the first answer is replayed");
  assert.equal((await svix.application.get(uid)).id, (await svix.application.get(app.id)).id);
  const other = await svix.application.update("other-js", { name: "Other", uid: "other-js" });
  assert.equal((await svix.application.update(other.id, { name: "Other 2", uid: other.uid })).name, "Other 2");
  assert.equal((await svix.application.patch(other.uid, { name: "Other 3", throttleRate: 50 })).throttleRate, 50);
  const ids = await pages((iterator) => svix.application.list({ limit: 2, iterator }));
  assert.ok([app.id, other.id, first.id].every((id) => ids.includes(id)));
  assert.deepEqual(ids, [...ids].sort());
  await svix.application.delete(first.id);
  await refused(404, "not_found", () => svix.application.get(first.id));
  await invalid(["query", "limit"], () => svix.application.list({ limit: 251 }));
  return { app, other };
}

async function walkEndpoints(app, name) {
  const create = (fields) => svix.endpoint.create(app.uid, fields);
  const every = await create({ url: receiver.url("/all"), uid: "all", secret: SECRET });
  const typed = await create({ url: receiver.url("/typed"), filterTypes: [name] });
  const room = await create({ url: receiver.url("/room"), channels: ["room-1"], rateLimit: 100 });
  assert.deepEqual([typed.filterTypes, room.channels, room.rateLimit], [[name], ["room-1"], 100]);
  await invalid(["body", "eventTypes"], () => create({ url: receiver.url("/x"), filterTypes: ["no.such.type"] }));
  await invalid(["body", "url"], () => create({ url: "not a url" }));
  await refused(409, "conflict", () => create({ url: receiver.url("/x"), uid: "all" }));
  const ids = await pages((iterator) => svix.endpoint.list(app.uid, { limit: 2, iterator }));
  assert.deepEqual(ids, [room.id, typed.id, every.id], "the newest first");
  const put = { url: receiver.url("/all"), uid: "all", description: "put" };
  assert.equal((await svix.endpoint.update(app.uid, "all", put)).description, "put");
  assert.equal((await svix.endpoint.getSecret(app.uid, "all")).key, SECRET, "a replacement keeps the secret");
  assert.equal((await svix.endpoint.patch(app.uid, "all", { description: "patched" })).description, "patched");
  assert.equal((await svix.endpoint.get(app.uid, every.id)).description, "patched");
  const headers = { "X-Region": "eu", Authorization: "Bearer abc" };
  await svix.endpoint.updateHeaders(app.uid, "all", { headers });
  await svix.endpoint.patchHeaders(app.uid, "all", { headers: { "X-Team": "billing" } });
  const shown = await svix.endpoint.getHeaders(app.uid, "all");
  assert.deepEqual(shown.headers, { "X-Region": "eu", "X-Team": "billing" });
  assert.deepEqual(shown.sensitive, ["Authorization"]);
  return { every, typed, room };
}

async function walkMessages(app, name, { every, typed, room }) {
  const publish = (fields, options) => svix.message.create(app.uid, { eventType: name, payload: {}, ...fields }, options);
  const key = { idempotencyKey: "msg-js" };
  const first = await publish({ payload: { n: 1 }, eventId: "invoice-1" }, key);
  assert.equal((await publish({ payload: { n: 9 }, eventId: "invoice-1" }, key)).id, first.id);
  await refused(409, "conflict", () => publish({ eventId: "invoice-1" }));
  const [atAll] = await receiver.waitFor("/all", first.id);
  verify(atAll, SECRET);
  assert.equal(atAll.headers["x-team"], "billing");
  const [atTyped] = await receiver.waitFor("/typed", first.id);
  const secret = (await svix.endpoint.getSecret(app.uid, typed.id)).key;
  verify(atTyped, secret);
  assert.throws(() => new Webhook(SECRET).verify(atTyped.body, atTyped.headers), WebhookVerificationError);
  const other = await publish({ eventType: "other.type", payload: { n: 2 }, channels: ["room-1"], tags: ["t"] });
  verify((await receiver.waitFor("/all", other.id))[0], SECRET);
  verify((await receiver.waitFor("/room", other.id))[0], (await svix.endpoint.getSecret(app.uid, room.id)).key);
  assert.equal(receiver.of("/typed", other.id).length + receiver.of("/room", first.id).length, 0);
  assert.equal((await svix.message.get(app.uid, "invoice-1")).id, first.id);
  const ids = await pages((iterator) => svix.message.list(app.uid, { limit: 2, iterator }));
  assert.deepEqual(ids, [other.id, first.id]);
  const filter = { eventTypes: [name], before: new Date(), after: started };
  assert.deepEqual((await svix.message.list(app.uid, filter)).data.map((message) => message.id), [first.id]);
  const onChannel = await svix.message.list(app.uid, { channel: "room-1" });
  assert.deepEqual(onChannel.data.map((message) => message.id), [other.id]);
  await invalid(["body", "channels"], () => publish({ channels: ["a b"] }));
  const application = { name: "Inline", uid: "inline-js" };
  await svix.message.create("inline-js", { eventType: name, payload: {}, application });
  assert.equal((await svix.application.get("inline-js")).name, "Inline");

  const attempts = await until("the attempts", async () => {
    const { data } = await svix.messageAttempt.listByMsg(app.uid, first.id);
    return data.length === 2 && data;
  });
  assert.deepEqual(new Set(attempts.map((one) => one.endpointId)), new Set([every.id, typed.id]));
  assert.ok(attempts.every((one) => one.status === 0 && one.responseStatusCode === 200));
  const one = await svix.messageAttempt.get(app.uid, first.id, attempts[0].id);
  assert.deepEqual([one.msgId, one.response], [first.id, "ok"]);
  const filtered = { eventTypes: [name], statusCodeClass: 200, status: 0 };
  const ofEndpoint = await svix.messageAttempt.listByEndpoint(app.uid, typed.id, filtered);
  assert.deepEqual(ofEndpoint.data.map((attempt) => attempt.msgId), [first.id]);
  const messages = await svix.messageAttempt.listAttemptedMessages(app.uid, every.id);
  assert.deepEqual(messages.data.map((message) => message.id), [other.id, first.id]);
  const destinations = await svix.messageAttempt.listAttemptedDestinations(app.uid, first.id);
  assert.equal(destinations.data.length, 2);
  await until("the statistics", async () => (await svix.endpoint.getStats(app.uid, every.id)).success === 2);
  await svix.messageAttempt.resend(app.uid, first.id, typed.id);
  verify((await receiver.waitFor("/typed", first.id, 2))[1], secret);
  await refused(404, "not_found", () => svix.messageAttempt.get(app.uid, first.id, "atmpt_unknown"));
}

async function walkRotation(app, name) {
  await svix.endpoint.rotateSecret(app.uid, "all", {});
  const { key } = await svix.endpoint.getSecret(app.uid, "all");
  assert.notEqual(key, SECRET);
  // A worker learns of a rotation within seconds. Until then it signs with the old secret, which stays valid.
  await until("a request under the new secret", async () => {
    const message = await svix.message.create(app.uid, { eventType: name, payload: { rotated: true } });
    const [delivery] = await receiver.waitFor("/all", message.id);
    verify(delivery, SECRET);
    try {
      verify(delivery, key);
      return true;
    } catch (error) {
      if (error instanceof WebhookVerificationError) return false;
      throw error;
    }
  });
}

async function walkOperations(app, name) {
  receiver.answer("/gone", 410);
  const gone = await svix.endpoint.create(app.uid, { url: receiver.url("/gone") });
  const { key } = await svix.endpoint.getSecret(app.uid, gone.id);
  const publish = (payload) => svix.message.create(app.uid, { eventType: name, payload });
  const lost = await publish({ lost: true });
  await receiver.waitFor("/gone", lost.id);
  await until("410 disables the endpoint", async () => (await svix.endpoint.get(app.uid, gone.id)).disabled);
  const missed = await publish({ missed: true });
  await receiver.waitFor("/all", missed.id);
  await refused(400, "endpoint_disabled", () => svix.messageAttempt.resend(app.uid, missed.id, gone.id));
  receiver.answer("/gone", 200);
  assert.equal((await svix.endpoint.patch(app.uid, gone.id, { disabled: false })).disabled, false);
  const finished = async (id) => (await svix.backgroundTask.get(id)).status === "finished";
  const recovery = await svix.endpoint.recover(app.uid, gone.id, { since: started });
  verify((await receiver.waitFor("/gone", lost.id, 2))[1], key);
  await until("the recovery ends", () => finished(recovery.id));
  const replay = await svix.endpoint.replayMissing(app.uid, gone.id, { since: started });
  verify((await receiver.waitFor("/gone", missed.id))[0], key);
  await until("the replay ends", () => finished(replay.id));
  const longAgo = new Date(Date.now() - 15 * 86_400_000);
  await invalid(["body", "since"], () => svix.endpoint.recover(app.uid, gone.id, { since: longAgo }));
  const example = await svix.endpoint.sendExample(app.uid, gone.id, { eventType: name });
  const [delivery] = await receiver.waitFor("/gone", example.id);
  verify(delivery, key);
  assert.deepEqual(JSON.parse(delivery.body), { invoice: 17 });

  await svix.message.expungeContent(app.uid, lost.id);
  assert.deepEqual((await svix.message.get(app.uid, lost.id)).payload, { expired: true });
  await refused(400, "missing_payload", () => svix.messageAttempt.resend(app.uid, lost.id, gone.id));
  return gone;
}

async function walkAccess(app, other) {
  const access = await svix.authentication.appPortalAccess(app.uid, {});
  assert.ok(access.url.startsWith(server) && access.url.includes(access.token));
  const user = new Svix(access.token, { serverUrl: server });
  assert.equal((await user.application.get(app.uid)).id, app.id);
  assert.ok((await user.endpoint.list(app.uid)).data.length > 0);
  await refused(403, "permission_denied", () => user.application.list());
  await refused(404, "not_found", () => user.application.get(other.uid));
  await refused(404, "not_found", () => user.endpoint.list(other.id));
  const stranger = new Svix(`${token.slice(0, -4)}AAAA`, { serverUrl: server });
  await refused(401, "authentication_failed", () => stranger.application.list());
  await refused(404, "not_supported", () => svix.integration.list(app.uid));
  await svix.health.get();
}

async function walkDeletion(app, gone) {
  await svix.endpoint.delete(app.uid, gone.id);
  await refused(404, "not_found", () => svix.endpoint.get(app.uid, gone.id));
  await svix.application.delete(app.uid);
  await refused(404, "not_found", () => svix.endpoint.list(app.id));
  assert.notEqual((await svix.application.create({ name: "Customer", uid: app.uid })).id, app.id);
}

const name = await walkEventTypes();
const { app, other } = await walkApplications();
const endpoints = await walkEndpoints(app, name);
await walkMessages(app, name, endpoints);
await walkRotation(app, name);
const gone = await walkOperations(app, name);
await walkAccess(app, other);
await walkDeletion(app, gone);
receiver.close();
console.log(`svix ${version} for JavaScript: the walk is complete, ${verified} deliveries verified`);
