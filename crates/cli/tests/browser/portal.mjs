// A customer's walk by clicking: a new endpoint, an example, its attempt, the secret, a header, a resend, a recovery, the end.

import { countMessages, createApi, createPortal, isSignedWith, startReceiver } from "./portal-setup.mjs";

export default async function ({ page, url, options, assert }) {
  const api = createApi(url);
  for (const name of ["invoice.paid", "invoice.overdue", "customer.created"]) await api("POST", "/event-type", { name, description: `About ${name}` });
  const portal = await createPortal(api, "Northwind Traders");
  const receiver = await startReceiver();
  const { requests } = receiver.state;
  const shoot = (name) => (options.isPictured ? page.screenshot(`portal-${name}`) : null);

  await page.goto(portal.url);
  assert(await page.evaluate(() => location.href.endsWith("/portal#/")), "the token stays in the address bar");
  await page.waitForText("Northwind Traders");
  await page.waitForText("No endpoints yet");
  await shoot("none-1400");

  // A new endpoint for one event type.
  await page.click(".title-row .button.main");
  await page.fill("input[type=url]", receiver.url);
  await page.fill("input[placeholder='What it is for']", "Bookkeeping");
  await page.click("input[value=some]");
  await page.click("input[value='invoice.paid']");
  await shoot("form-1400");
  await page.click("form.send-form button[type=submit]");
  await page.waitForText("Messages are sent as they are published.");
  await page.waitForText("invoice.paid");
  const endpoint = await page.evaluate(() => location.hash);

  // An example, and its attempt with status, latency and excerpt.
  await page.click("[data-action=example]");
  await page.waitFor("only the endpoint's own type", () => document.querySelector("#example-type")?.options.length === 1);
  await page.click("#confirm-submit");
  await page.waitFor("the page of the message", () => location.hash.startsWith("#/messages/msg_"));
  await page.waitForText("HTTP 200");
  await page.waitForText("answer ");
  await page.waitForText("delivered");
  await shoot("message-1400");
  assert(countMessages(requests) === 1, `the receiver got ${countMessages(requests)} messages`);

  // The secret that the page shows signs the request. A rotation changes it.
  await page.show(endpoint);
  await page.click("[data-action=show-secret]");
  const secret = await page.waitFor("the secret", () => document.querySelector(".secret").textContent.match(/^whsec_.+/)?.[0]);
  assert(isSignedWith(secret, requests[0]), "the secret does not sign what the receiver got");
  await page.click("[data-action=rotate]");
  await page.click("#confirm-submit");
  const rotated = await page.waitFor("another secret", (old) => { const { textContent: text } = document.querySelector(".secret"); return text.startsWith("whsec_") && text !== old ? text : null; }, secret);

  // A header, a resend: the receiver gets both, under both secrets.
  await page.fill("input[placeholder='X-Region']", "X-Region");
  await page.fill("input[placeholder='eu']", "eu-west");
  await page.click(".header-form button");
  await page.waitForText("X-Region eu-west");
  await page.click(".row [data-action=resend]");
  const attempts = await page.evaluate(() => document.querySelectorAll(".list.attempts .row").length);
  const sent = requests.length;
  await page.click("#confirm-submit");
  await page.waitFor("another attempt", (before) => document.querySelectorAll(".list.attempts .row").length > before, attempts);
  const resent = requests.slice(sent);
  assert(resent.length > 0 && countMessages(requests) === 1, "the receiver did not get the same message again");
  assert(resent.every(({ headers }) => headers["x-region"] === "eu-west"), "the header is not sent");
  assert(resent.every((request) => isSignedWith(rotated, request) && isSignedWith(secret, request)), "the old secret stopped signing at once");
  await shoot("endpoint-1400");

  // An endpoint that fails says so; its failed attempts can be chosen.
  receiver.state.status = 500;
  await page.click("[data-action=example]");
  await page.click("#confirm-submit");
  await page.waitForText("HTTP 500");
  await page.show(endpoint);
  await page.click(".segments [data-value='2']");
  // On a slow machine the message may have been retried by now.
  await page.waitFor("only failed attempts", () => {
    const results = [...document.querySelectorAll(".list.attempts .row .pill")].map((pill) => pill.textContent);
    return results.length > 0 && results.every((result) => result === "HTTP 500");
  });
  await page.waitForText("Some messages fail.");
  receiver.state.status = 200;

  // A recovery of what failed, with its progress to the end.
  await page.click("[data-action=recover]");
  await page.click("#confirm-submit");
  await page.waitFor("a finished recovery", () => document.querySelector(".task-line")?.innerText.includes("finished"));

  // Disabled, enabled, edited, deleted.
  await page.click("[data-action=disable]");
  await page.click("#confirm-submit");
  await page.waitForText("Disabled by hand.");
  await page.click("[data-action=enable]");
  await page.click("#confirm-submit");
  await page.waitFor("an enabled endpoint", () => document.querySelector("[data-action=disable]") !== null);
  await page.click(".actions a.button");
  await page.waitFor("the filled form", (wanted) => document.querySelector("input[type=url]")?.value === wanted, receiver.url);
  await page.fill("input[placeholder='What it is for']", "Ledger");
  await page.click("form.send-form button[type=submit]");
  await page.waitForText("Ledger");

  // The lists, the filter and the keys.
  await page.chord("g", "m", () => location.hash === "#/messages");
  await page.waitFor("both messages", () => document.querySelectorAll(".list.messages .row").length === 2);
  await page.press("/");
  await page.waitFor("the focus in the search", () => document.activeElement.id === "find-id");
  await page.press("Escape");
  await page.press("j");
  await page.press("Enter");
  await page.waitForText("Payload");
  await page.press("u");
  await page.waitFor("the messages again", () => location.hash === "#/messages" && document.querySelectorAll(".list.messages .row").length === 2);
  const [, value] = await page.evaluate(() => [...document.querySelectorAll(".filters select option")].map((option) => option.value));
  await page.fill(".filters select", value);
  await page.waitFor("states of the endpoint's messages", () => document.querySelectorAll(".list.messages .row .pill").length === 2);
  await page.press("j");
  await page.press("r");
  await page.waitForText("Send this message again?");
  await page.press("Escape");
  await page.show(endpoint);
  await page.click("[data-action=delete]");
  await page.click("#confirm-submit");
  await page.waitForText("No endpoints yet");

  const asked = await page.evaluate(() => performance.getEntriesByType("resource").map(({ name }) => new URL(name).pathname));
  const foreign = asked.filter((path) => !path.startsWith("/api/v1/") && !path.startsWith("/assets/"));
  assert(asked.length > 20 && foreign.length === 0, `the portal asked for ${foreign}`);
  receiver.close();
}
