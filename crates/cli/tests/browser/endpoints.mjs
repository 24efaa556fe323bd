// An operator and the endpoints of an application: why one is disabled, its secret, its recovery with progress and stop, its circuit.

import { countMessages, createApi, startReceiver } from "./portal-setup.mjs";

// A recovery of one message a second that sends this many lasts until it is stopped, also on a busy machine.
const FAILED = 120;
// The first of them are of a type of their own.
const MISSED = 3;
// More than are in flight when the circuit opens, so that events are left for its probes.
const CIRCUIT_EVENTS = 40;

export default async function ({ page, url, assert, until }) {
  const api = createApi(url);
  const receiver = await startReceiver();
  const { id: app } = await api("POST", "/app", { name: "Northwind Traders", uid: "northwind" });
  await api("POST", `/app/${app}/endpoint`, { url: receiver.url, description: "Bookkeeping", uid: "books" });
  const publish = (number) => api("POST", "/app/northwind/msg", { eventType: number < MISSED ? "customer.created" : "invoice.paid", payload: { number } });
  const confirm = () => page.click("#confirm-submit");
  const overview = () => fetch(new URL("v1/webhook-outbox/overview", url)).then((response) => response.json());

  // The receiver is gone: the list says so, and the operator enables the endpoint again.
  receiver.state.status = 410;
  await publish(0);
  await page.goto(`${url}#/endpoints`);
  await page.waitForText("Disabled because the receiver answered 410 Gone");
  assert(await page.evaluate(() => document.querySelector(".filters input").value === "northwind"), "no application is chosen at first");
  await page.screenshot("endpoints-1400");
  // A 404 is a failure of the message, and no reason to open the circuit.
  receiver.state.status = 404;
  await page.press("j");
  await page.click("[data-action=enable]");
  await confirm();
  await page.waitFor("an enabled endpoint", () => document.querySelector("[data-action=disable]") !== null);

  // Disabled and enabled by the operator.
  await page.click("[data-action=disable]");
  await page.waitForText("Disable this endpoint?");
  await confirm();
  await page.waitForText("Disabled by hand");
  await page.click("[data-action=enable]");
  await confirm();
  await page.waitFor("an enabled endpoint again", () => document.querySelector("[data-action=disable]") !== null);

  // The new secret is shown once.
  await page.click("[data-action=rotate]");
  await confirm();
  const secret = await page.waitFor("the new secret", () => document.querySelector("#new-secret[open] .secret")?.textContent.match(/^whsec_.+/)?.[0]);
  assert((await api("GET", "/app/northwind/endpoint/books/secret")).key === secret, "the page shows another secret");
  await page.click("#new-secret form button:last-child");
  await page.waitFor("a page without the secret", () => document.querySelector("#new-secret .secret").textContent === "");

  // All that failed at this receiver, in the dead letters and as a recovery that is stopped.
  for (let number = 1; number < FAILED; number += 1) await publish(number);
  await until("the failed messages", async () => (await overview()).failed_count === FAILED);
  await page.click(".row a[data-action=requeue]");
  await page.waitForText(`${FAILED} dead letters match`);
  assert(await page.evaluate(() => document.querySelector(".filters input").value.startsWith("ep_")), "the dead letters are not those of the endpoint");
  await page.chord("g", "n", () => location.hash === "#/endpoints");
  await page.click(".list.destinations .row [data-open]");
  await page.waitForText("What operators did");
  await page.waitForText(app);
  await page.click("[data-action=recover]");
  await confirm();
  await page.waitFor("a running recovery", () => location.hash === "#/bulk" && document.querySelector(".list.operations .row [data-action=stop]") !== null);
  await page.waitForText("Send failed messages again");
  await page.waitForText("sent of");
  await page.waitFor("the number in the navigation", () => document.querySelector("#nav-running").textContent === "1");
  await page.screenshot("recoveries-1400");
  await page.click(".list.operations [data-action=stop]");
  await confirm();
  await page.waitFor("a stopped recovery", () => document.querySelector(".list.operations progress.stopped") !== null);

  // Messages that an endpoint missed, because it was added later: all of its types are sent, to the end of the recovery.
  receiver.state.status = 200;
  await api("POST", "/event-type", { name: "customer.created", description: "" });
  const { id: late } = await api("POST", `/app/${app}/endpoint`, { url: receiver.url.replace("hook", "late"), uid: "late", eventTypes: ["customer.created"] });
  await page.show(`#/destinations/${BigInt(`0x${late.slice(3)}`)}`);
  await page.click("[data-action=replay]");
  await page.waitForText("Send missing messages?");
  await confirm();
  await page.waitFor("a finished recovery", () => location.hash === "#/bulk" && document.querySelector(".list.operations progress.finished") !== null);
  await page.waitForText("Send missing messages");
  await until("the end of all attempts", async () => (await overview()).pending_count === 0);
  const received = countMessages(receiver.state.requests.filter(({ path }) => path === "/late"));
  assert(received === MISSED, `the new endpoint got ${received} messages`);
  receiver.state.status = 500;
  await api("DELETE", `/app/${app}/endpoint/${late}`);

  // After ten failures in a row the circuit is open: its page says since when, and counts down to the next probe.
  for (let number = 0; number < CIRCUIT_EVENTS; number += 1) await publish(number);
  await page.show("#/destinations?state=circuit_open");
  await page.waitFor("the destination", () => document.querySelectorAll(".list.destinations .row").length === 1 && document.querySelector("button[data-value=circuit_open]") !== null);
  await page.click(".list.destinations .row [data-open]");
  await page.waitForText("Circuit open since");
  await page.waitFor("the countdown to the probe", () => Boolean([...document.querySelectorAll(".facts dt")].find((name) => name.textContent === "Next probe")?.nextElementSibling.querySelector("time[data-kind=countdown]")));
  await page.waitForText("HTTP 500");
  // What workers have learned of the receiver: how many requests at once, how many failed, and how long they took.
  const fact = (name) => page.waitFor(`the fact ${name}`, (wanted) => [...document.querySelectorAll(".facts dt")].find((element) => element.textContent === wanted)?.nextElementSibling.textContent, name);
  assert(/^\d+ requests? at once$/.test(await fact("Window")), `the window is ${await fact("Window")}`);
  assert(/^\d+ % failed, [\d.,]+ m?s$/.test(await fact("Recent requests")), `the recent requests are ${await fact("Recent requests")}`);
  const first = await fact("Next probe");
  await until("a countdown that goes on", async () => await fact("Next probe") !== first);
  await page.screenshot("destination-1400");
  receiver.close();
}
