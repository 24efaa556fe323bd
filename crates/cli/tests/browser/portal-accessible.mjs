// axe-core finds nothing on any view of the portal, with data and without, nor in its dialogs.

import { createAxe } from "./axe.mjs";
import { createApi, createPortal, startReceiver } from "./portal-setup.mjs";

export default async function ({ page, url, options, assert }) {
  const api = createApi(url);
  const receiver = await startReceiver();
  for (const name of ["invoice.paid", "customer.created"]) await api("POST", "/event-type", { name, description: "" });
  const portal = await createPortal(api, "Northwind Traders");
  const endpoint = await api("POST", `/app/${portal.id}/endpoint`, { url: receiver.url, headers: { "X-Region": "eu", authorization: "x" } });
  await api("POST", `/app/${portal.id}/endpoint`, { url: "http://127.0.0.1:1/off", disabled: true });
  const message = await api("POST", `/app/${portal.id}/msg`, { eventType: "invoice.paid", payload: { invoice: 17 } });
  const check = await createAxe(page, options, assert);
  await page.goto(portal.url);
  const views = { endpoints: "#/", endpoint: `#/endpoints/${endpoint.id}`, form: "#/new", edit: `#/edit/${endpoint.id}`, messages: "#/messages", message: `#/messages/${message.id}` };
  for (const [name, hash] of Object.entries(views)) {
    await page.show(hash);
    await page.waitFor(`the view ${name} without "Loading"`, () => !document.querySelector("#view").innerText.includes("Loading") && document.querySelector("h1"));
    await check(`portal-${name}`);
  }
  await page.show(views.endpoint);
  for (const [action, ready] of Object.entries({ example: "#example-type", recover: "#confirm-submit", delete: "#confirm-submit" })) {
    await page.click(`[data-action=${action}]`);
    await page.waitForElement(`#confirm[open] ${ready}`);
    await check(`portal-dialog-${action}`);
    await page.resize(1400, 900);
    await page.press("Escape");
    await page.waitFor("a closed dialog", () => !document.querySelector("#confirm").open);
  }
  const empty = await createPortal(api, "Without endpoints");
  await page.navigate("about:blank");
  await page.goto(empty.url);
  for (const [hash, text] of [["#/", "No endpoints yet"], ["#/messages", "No messages"]]) {
    await page.show(hash);
    await page.waitForText(text);
    await check(`portal-empty${hash.replace(/\W+/g, "-")}`);
  }
  await page.goto(portal.url.split("#")[0]);
  await page.waitForElement(".ending");
  await check("portal-missing");
  receiver.close();
}
