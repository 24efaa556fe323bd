// What a link permits: only its application, only its permissions, only until it expires, and nothing after a reload.

import { createApi, createPortal, signToken } from "./portal-setup.mjs";

export default async function ({ page, url, options, assert }) {
  const api = createApi(url);
  const mine = await createPortal(api, "Mine");
  const other = await createPortal(api, "Other");
  const post = (app, body) => api("POST", `/app/${app.id}/endpoint`, body);
  const own = await post(mine, { url: "http://127.0.0.1:1/mine", description: "my endpoint" });
  const foreign = await post(other, { url: "http://127.0.0.1:1/other", description: "other endpoint", disabled: true });
  const message = await api("POST", `/app/${other.id}/msg`, { eventType: "a.b", payload: { secret: "of the other" } });
  const open = async (link) => {
    await page.navigate("about:blank");
    await page.goto(link);
  };
  const portal = (token) => `${mine.url.split("#")[0]}#token=${token}`;
  const ended = (ending) => page.waitFor(`the state ${ending}`, (wanted) => document.querySelector(".ending")?.dataset.ending === wanted, ending);

  // Another application does not exist for this token.
  await open(mine.url);
  await page.waitForText("my endpoint");
  assert(await page.evaluate(() => !document.body.innerText.includes("other endpoint")), "an endpoint of another application is listed");
  for (const hash of [`#/endpoints/${foreign.id}`, `#/edit/${foreign.id}`, `#/messages/${message.id}`, `#/messages?endpoint=${foreign.id}`, "#/dead-letters", "#/events", "#/bulk"]) {
    await page.show(hash);
    await page.waitFor(`an end of loading at ${hash}`, () => !document.querySelector("#view").innerText.includes("Loading"));
    const text = await page.evaluate(() => document.body.innerText);
    assert(!text.includes("/other") && !text.includes("of the other"), `${hash} shows another application: ${text}`);
  }
  const stored = await page.evaluate(() => JSON.stringify([{ ...sessionStorage }, { ...localStorage }, document.cookie, history.state, location.href, Object.values(globalThis).filter((value) => typeof value === "string")]));
  assert(!stored.includes(mine.token), `the token is where another script can read it: ${stored}`);

  // A link that may only read.
  const reader = await api("POST", `/auth/app-portal-access/${mine.id}`, { readOnly: true });
  await open(reader.url);
  await page.waitForText("my endpoint");
  await page.settle();
  assert(await page.evaluate(() => document.querySelector("a[href='#/new']") === null), "a reader may add endpoints");
  await page.show(`#/endpoints/${own.id}`);
  await page.waitForText("Custom headers");
  await page.waitForText("No attempts yet");
  await page.waitFor("the end of loading", () => !document.querySelector("#view").innerText.includes("Loading"));
  await page.settle();
  assert(await page.evaluate(() => document.querySelector("#view [data-action], .header-form, #view a[href^='#/edit']") === null), "a reader is offered an action");

  // A link that may only look at endpoints and their secrets.
  const holder = await api("POST", `/auth/app-portal-access/${mine.id}`, { capabilities: ["ViewBase", "ViewEndpointSecret"] });
  await open(`${holder.url}`);
  await page.show(`#/endpoints/${own.id}`);
  await page.click("[data-action=show-secret]");
  await page.waitForText("whsec_");
  assert(await page.evaluate(() => document.querySelector("[data-action=rotate]") === null), "this link may not rotate");

  // Links that do not work.
  const claims = { sub: mine.id, org: "org_default", iat: 1, nbf: 1, exp: Math.floor(Date.now() / 1000) + 3600 };
  await open(portal(signToken(options.secret, { ...claims, exp: 2 })));
  await ended("expired");
  await page.screenshot("portal-expired-1400");
  await open(portal(signToken("another secret of another instance, or none", claims)));
  await ended("refused");
  await open(portal("eyJhbGciOiJIUzI1NiJ9.e30"));
  await ended("malformed");
  await open(portal(signToken(options.secret, { ...claims, permissions: ["read_secrets"] })));
  await ended("forbidden");
  await open(portal(signToken(options.secret, { ...claims, sub: "app_00000000000000ff" })));
  await ended("gone");

  // A reload forgets the token. Another link in the same tab opens.
  await open(mine.url);
  await page.waitForText("my endpoint");
  await page.call("Page.reload", {});
  await ended("missing");
  await page.evaluate((hash) => { location.hash = hash; }, `token=${other.token}`);
  await page.waitForText("other endpoint");
  assert(await page.evaluate(() => location.hash === "#/"), "the token stays in the address bar");
}
