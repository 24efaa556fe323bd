// Test events by clicking: to a URL, what is wrong with one, one that fails, and to an endpoint of an application.

import { countMessages, createApi, isSignedWith, startReceiver } from "./portal-setup.mjs";

export default async function ({ page, url, assert }) {
  const receiver = await startReceiver();
  await page.goto(url);
  await page.click("#nav-send");
  // Typed key by key: in a field, no key is a shortcut of the page.
  await page.type("input[type=url]", receiver.url);
  await page.type("textarea", "{ not json");
  await page.click("form.send-form button[type=submit]");
  await page.waitForText("The payload is not JSON");
  await page.type("textarea", '{"invoice":17}');
  await page.click("form.send-form button[type=submit]");
  await page.waitForText("HTTP 200");
  await page.waitForText("answer ");
  const [{ headers, body }] = receiver.state.requests;
  assert(body === '{"invoice":17}' && headers["webhook-signature"], `the receiver got ${body}`);
  assert(await page.evaluate((wanted) => location.hash.includes(encodeURIComponent(wanted)), receiver.url), "the form is not in the URL");
  receiver.state.status = 503;
  await page.click("form.send-form button[type=submit]");
  await page.waitForText("HTTP 503");
  await page.waitForText("Dead letter: exhausted");
  await page.screenshot("send-1400");

  // To an endpoint: one of its event types, signed with its secret, watched to its end.
  receiver.state.status = 200;
  const api = createApi(url);
  await api("POST", "/event-type", { name: "invoice.paid", description: "" });
  await api("POST", "/app", { name: "Northwind Traders", uid: "northwind" });
  await api("POST", "/app/northwind/endpoint", { url: receiver.url, uid: "books" });
  const sent = receiver.state.requests.length;
  await page.show("#/endpoints");
  await page.click(".row [data-action=test]");
  await page.waitFor("the event types", () => document.querySelector("#example-type")?.value === "invoice.paid");
  await page.waitFor("the URL of the endpoint", (wanted) => document.querySelector(".send-form input[readonly]").value === wanted, receiver.url);
  await page.click("form.send-form button[type=submit]");
  await page.waitForText("HTTP 200");
  await page.waitFor("its end", () => document.querySelector(".send-result .event-title .pill").textContent === "delivered");
  const { key: secret } = await api("GET", "/app/northwind/endpoint/books/secret");
  const examples = receiver.state.requests.slice(sent);
  assert(countMessages(examples) === 1 && isSignedWith(secret, examples[0]), "the endpoint did not get a signed example");
  await page.screenshot("send-endpoint-1400");
  receiver.close();
}
