// The portal's messages of one endpoint, chosen by a link or by hand: a resend goes to the chosen one.

import { refuse, serveFake } from "./fake-server.mjs";
import { signToken } from "./portal-setup.mjs";

const AT = "2026-01-31T12:00:00.000000Z";
const endpointOf = (number) => ({ id: `ep_${number}`, uid: null, url: `https://receiver-${number}.example/`, description: "", disabled: false, disabledReason: null, disabledAt: null, eventTypes: null, channels: null, throttleRate: null, ordering: "any", createdAt: AT, updatedAt: AT });
// The same at each endpoint.
const MESSAGE = { id: "msg_1", eventId: null, eventType: "invoice.paid", payload: {}, channels: null, tags: null, timestamp: AT, status: 0, statusText: "success", nextAttempt: null };

export default async function ({ page, url, assert, until }) {
  const asked = [];
  const keys = [];
  let failures = 0;
  const list = (data) => ({ data, iterator: null, prevIterator: null, done: true });
  const answer = (path, body, request) => {
    const { pathname } = new URL(path, url);
    asked.push(`${request.method} ${pathname.replace("/api/v1/app/app_1", "")}`);
    if (request.method === "POST" && pathname.endsWith("/endpoint")) {
      keys.push(request.headers["idempotency-key"]);
      return keys.length < 4 ? refuse(503, "the store is away") : endpointOf(5);
    }
    if (pathname.endsWith("/resend")) return { id: "msg_1" };
    if (pathname.endsWith("/msg")) return list([MESSAGE]);
    if (pathname.endsWith("/event-type")) return list([]);
    if (pathname.endsWith("/stats")) return { success: 0, pending: 0, sending: 0, fail: 0 };
    if (pathname.endsWith("/headers")) return { headers: {}, sensitive: [] };
    if (pathname.includes("/attempt/")) return list([]);
    if (pathname.endsWith("/endpoint")) {
      failures -= 1;
      return failures >= 0 ? refuse(503, "the store is away") : list([endpointOf(1), endpointOf(2)]);
    }
    return pathname.includes("/endpoint/") ? endpointOf(5) : { id: "app_1", uid: null, name: "Shop" };
  };
  const { base, close } = await serveFake(url, answer);
  const token = signToken("any", { sub: "app_1", org: "org_1", exp: Math.floor(Date.now() / 1000) + 3600 });
  const resent = () => asked.filter((path) => path.endsWith("/resend"));
  const resend = async (endpoint) => {
    const before = resent().length;
    await page.click("[data-action=resend]");
    await page.click("#confirm-submit");
    await until("a resend", () => resent().length > before);
    assert(resent().at(-1).includes(`/endpoint/${endpoint}/`), `the message was sent again by ${resent().at(-1)} instead of to ${endpoint}`);
    await page.waitFor("a closed dialog", () => !document.querySelector("#confirm").open);
  };

  // The clock of the customer is two hours ahead: the server says whether the link has expired.
  await page.call("Page.addScriptToEvaluateOnNewDocument", { source: "{ const now = Date.now; Date.now = () => now() + 7200000; }" });
  await page.goto(`${base}portal#token=${token}`);
  await page.waitForText("Shop");
  await page.waitForText("https://receiver-1.example/");

  // The endpoint of a link is in use at once, also while the endpoints cannot be loaded, and if it is not among the first.
  failures = 1;
  await page.show("#/messages?endpoint=ep_7");
  await page.waitFor("the message of the endpoint", () => document.querySelector(".list.messages [data-action=resend]") !== null);
  assert(!asked.some((path) => path === "GET /msg"), "the filter of the link was ignored");
  assert(await page.evaluate(() => document.querySelector(".filters select").value === "ep_7"), "the endpoint of the link is not chosen");
  await page.waitFor("the endpoints after an error", () => document.querySelectorAll(".filters select option").length === 4);
  await resend("ep_7");

  // By hand, one after the other: the rows look the same.
  for (const endpoint of ["ep_1", "ep_2"]) {
    await page.fill(".filters select", endpoint);
    await until(`the messages of ${endpoint}`, () => asked.includes(`GET /endpoint/${endpoint}/msg`));
    await page.waitFor("the message", () => document.querySelector(".list.messages")?.getAttribute("aria-busy") === "false" && document.querySelector(".list.messages [data-action=resend]")?.checkVisibility());
    await resend(endpoint);
  }

  // A repetition of the same form has the same idempotency key, and a corrected form another one.
  await page.show("#/new");
  const submit = async () => {
    const before = keys.length;
    await page.waitFor("a form that can be sent", () => !document.querySelector(".send-form button[type=submit]").disabled);
    await page.click(".send-form button[type=submit]");
    await until("a request", () => keys.length > before);
  };
  await page.fill("input[type=url]", "https://receiver-4.example/");
  await submit();
  await submit();
  await page.fill("input[type=url]", "https://receiver-5.example/");
  await submit();
  assert(keys[0] === keys[1] && keys[2] !== keys[0], `the idempotency keys are ${keys}`);
  await submit();
  await page.waitFor("the new endpoint", () => location.hash === "#/endpoints/ep_5");
  assert(keys[3] === keys[2], `the idempotency keys are ${keys}`);
  close();
}
