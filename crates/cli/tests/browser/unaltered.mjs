// Payloads are shown and sent as they are: large numbers, decimals and repeated names do not change.

import { createApi, createPortal, startReceiver } from "./portal-setup.mjs";

const TYPED = '{"id": 12345678901234567890, "price":1.10,"a":1,"a":2, "nested": {"list":[1e3, []]}}';
const SHOWN = ["12345678901234567890", '"price": 1.10', '"a": 1,\n  "a": 2', "1e3,\n      []"];

export default async function ({ page, url, assert, until }) {
  const receiver = await startReceiver();
  const api = createApi(url);
  const shows = () => page.waitFor("the payload as it is", (parts) => parts.every((part) => document.querySelector(".payload")?.textContent.includes(part)), SHOWN);

  await page.goto(`${url}#/send?url=${encodeURIComponent(receiver.url)}`);
  await page.fill("textarea", "{nope");
  await page.click(".send-form button[type=submit]");
  await page.waitForText("The payload is not JSON");
  await page.fill("textarea", TYPED);
  await page.click(".send-form button[type=submit]");
  await until("the request", () => receiver.state.requests.length === 1);
  for (const part of ["12345678901234567890", "1.10", '"a":2', "1e3"]) assert(receiver.state.requests[0].body.includes(part), `the test event was changed: ${receiver.state.requests[0].body}`);
  await page.click("[data-action=content]");
  await shows();

  // The same in the portal, with what its button copies.
  const { id, url: link } = await createPortal(api, "Shop");
  await api("POST", `/app/${id}/endpoint`, { url: receiver.url });
  const published = await fetch(new URL(`api/v1/app/${id}/msg`, url), { method: "POST", headers: { "content-type": "application/json" }, body: `{"eventType":"order.created","payload":${TYPED}}` });
  assert(published.ok, `the message was refused: ${published.status}`);
  const message = await published.json();
  await page.goto(link);
  await page.show(`#/messages/${message.id}`);
  await shows();
  await page.evaluate(() => { navigator.clipboard.writeText = async (text) => { globalThis.copied = text; }; });
  await page.click("[aria-label='Copy the payload']");
  await page.waitFor("the copied payload", (text) => globalThis.copied === text, TYPED);
  receiver.close();
}
