// A tab that is hidden asks for nothing and holds no connection. Shown again, it goes on where it was, or begins anew after a long time.

import { CALM, serveFake } from "./fake-server.mjs";

export default async function ({ page, url, assert, until }) {
  let streams = [];
  let overviews = 0;
  const answer = (path) => {
    const name = new URL(path, url).pathname.split("/").pop();
    if (name === "overview") overviews += 1;
    return name === "whoami" ? { name: "local", role: null, permissions: ["read_all"] } : name === "overview" ? CALM : null;
  };
  const stream = (response) => {
    const opened = { position: response.req.headers["last-event-id"], isOpen: true, response };
    response.on("close", () => { opened.isOpen = false; });
    streams.push(opened);
  };
  const { base, close } = await serveFake(url, answer, { stream });
  const setHidden = (value) => page.evaluate((isHidden) => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => isHidden });
    document.dispatchEvent(new Event("visibilitychange"));
  }, value);
  const send = (number) => streams.at(-1).response.write(`id: 1:${number}\ndata: ${JSON.stringify({ type: "WebhookDeliveredEvent", webhook_delivery_id: `order-${number}`, event_type: "t", destination_url: "https://a.example/", attempts: 1, at: new Date().toISOString() })}\n\n`);

  await page.goto(`${base}#/live`);
  await until("a stream", () => streams.length === 1);
  send(1);
  await page.waitForText("order-1");
  await setHidden(true);
  await until("the end of the stream of a hidden tab", () => !streams[0].isOpen);
  const before = overviews;
  await page.evaluate(() => new Promise((passed) => setTimeout(passed, 5000)));
  assert(overviews === before, "a hidden tab polls");
  await setHidden(false);
  await until("a stream again", () => streams.length === 2 && streams[1].isOpen);
  assert(streams[1].position === "1:1", `the stream is resumed from ${streams[1].position}`);
  await until("the counts again", () => overviews > before);
  send(2);
  await page.waitForText("order-2");

  // A short look at another tab ends nothing.
  await setHidden(true);
  await setHidden(false);
  send(3);
  await page.waitForText("order-3");
  assert(streams.length === 2, "a short absence ended the stream");

  // After a night, what was missed is not replayed.
  await setHidden(true);
  await until("the end of the stream", () => !streams[1].isOpen);
  await page.evaluate(() => {
    const now = Date.now;
    Date.now = () => now() + 8 * 3600 * 1000;
  });
  const counted = overviews;
  await setHidden(false);
  await until("a new stream", () => streams.length === 3);
  assert(streams[2].position === undefined, `the stream of a new day is resumed from ${streams[2].position}`);
  await until("the counts of the new day", () => overviews > counted);
  close();
}
