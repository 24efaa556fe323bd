// Every text that a customer, a producer or a receiver can choose is hostile, in every field of the portal.

import { createChecks, serveHostile } from "./hostile-setup.mjs";
import { PAYLOADS } from "./payloads.mjs";
import { signToken } from "./portal-setup.mjs";

const AT = "2026-01-31T12:00:00.000000Z";

const endpointOf = (text, index) => ({
  id: index % 2 ? text : `ep_${index}`, uid: text, url: text, description: text, disabled: index % 3 === 0, disabledReason: text, disabledAt: text, eventTypes: index % 4 ? [text, text] : null,
  filterTypes: [text], channels: [text], throttleRate: text, rateLimit: text, metadata: { [text]: text }, ordering: text, createdAt: text, updatedAt: AT, version: 1,
});
const messageOf = (text, index) => ({
  id: index % 2 ? text : `msg_${index}`, eventId: text, eventType: text, payload: { [text]: text }, channels: [text], tags: [text], timestamp: text, deliverAt: text,
  status: 1, statusText: text, nextAttempt: text,
});
const attemptOf = (text, index) => ({
  id: `atmpt_${index}`, msgId: text, endpointId: text, url: text, response: text, responseStatusCode: text, responseDurationMs: text, status: index % 2, statusText: text, triggerType: 1,
  timestamp: text, msg: messageOf(text, index),
});

/** Answers as the API would if every text were `PAYLOADS[current]`, and lists with all of them. */
function answer(path, current) {
  const text = PAYLOADS[current];
  const parts = path.replace(/^.*\/api\/v1\//, "").split("?")[0].split("/").map(decodeURIComponent);
  const [root, , kind, id, part] = parts;
  const list = (create) => ({ data: PAYLOADS.map(create), iterator: null, prevIterator: null, done: true });
  if (root === "event-type") return list((name) => ({ name, description: name, archived: false }));
  if (root === "background-task") return { id: text, status: text, task: text, data: { sent: text, examined: text } };
  if (root !== "app") return null;
  if (kind === undefined) return { id: "app_1", uid: text, name: text };
  if (kind === "attempt") return list(attemptOf);
  if (kind === "endpoint" && id === undefined) return list(endpointOf);
  if (kind === "msg" && id === undefined) return list(messageOf);
  if (kind === "msg") return part === "endpoint" ? list((each, index) => ({ ...endpointOf(each, index), statusText: each, nextAttempt: each })) : messageOf(text, current);
  switch (part) {
    case "stats": return { success: text, pending: text, sending: text, fail: text, canceled: text };
    case "secret": return { key: text };
    case "headers": return { headers: Object.fromEntries(PAYLOADS.map((each) => [each, each])), sensitive: PAYLOADS };
    case "msg": return list(messageOf);
    case "recover": case "replay-missing": return { id: text, status: "running", task: text };
    default: return endpointOf(text, current);
  }
}

export default async function ({ page, url, assert }) {
  const state = { current: 0 };
  const { base, close } = await serveHostile(url, state, answer);
  const { check, open, show } = createChecks(page, `${base}portal`, assert);
  const claims = { sub: "app_1", org: "org_1", exp: Math.floor(Date.now() / 1000) + 3600, permissions: [...PAYLOADS, "read", "read_messages", "read_secrets", "rotate_secrets", "manage", "resend"] };
  await page.goto(`${base}portal#token=${signToken("any", claims)}`);
  await page.waitFor("the name", (text) => document.querySelector("#app-name").textContent === text, PAYLOADS[0]);
  await show("#/", PAYLOADS[8]);
  await show("#/messages", PAYLOADS[8]);
  await show("#/messages?endpoint=ep_0", PAYLOADS[8]);
  await show("#/new", PAYLOADS[8]);
  for (state.current = 0; state.current < PAYLOADS.length; state.current += 1) {
    const text = PAYLOADS[state.current];
    const id = encodeURIComponent(text);
    await show(`#/endpoints/${id}`, text);
    await show(`#/messages/${id}`, text);
    if (state.current % 8 !== 0) continue;
    await page.show(`#/endpoints/${id}`);
    await page.click("[data-action=show-secret]");
    await page.waitFor("the secret", (wanted) => document.querySelector(".secret").textContent === wanted, text);
    await page.click("[data-action=delete]");
    await check("a confirmation");
    await page.press("Escape");
    await page.click("[data-action=recover]");
    await page.click("#confirm-submit");
    await page.waitFor("the recovery", (wanted) => document.querySelector(".task-line").textContent.includes(wanted), text);
    await check("a recovery");
    await show(`#/edit/${id}`, "Edit the endpoint");
    await open(`#/messages?type=${id}&endpoint=${id}`);
    await check("filters of the URL");
  }
  await page.screenshot("portal-hostile-1400");
  close();
}
