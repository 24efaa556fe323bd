// A live tail of thousands of notices a second: the filter loses none, and rows stay in place while the user reads, or has paused the tail.

import { CALM, serveFake } from "./fake-server.mjs";

const BURST = 2000;
const RARE_EVERY = 500;

export default async function ({ page, url, assert }) {
  let send = () => {};
  let sent = 0;
  const burst = (count, every = RARE_EVERY) => {
    for (let index = 0; index < count; index += 1, sent += 1) {
      const isRare = sent % every === 0;
      send({ type: "WebhookDeliveredEvent", webhook_delivery_id: `order-${sent}`, event_type: isRare ? "order.rare" : "order.usual", destination_url: isRare ? "https://rare.example/" : "https://usual.example/", attempts: 1, at: new Date().toISOString() });
    }
  };
  const answer = (path) => (path.includes("/whoami") ? { name: "local", role: null, permissions: ["read_all"] } : path.includes("/overview") ? CALM : null);
  const { base, close } = await serveFake(url, answer, { stream: (response) => {
    send = (notice) => response.write(`id: 1:${sent}\ndata: ${JSON.stringify(notice)}\n\n`);
  } });
  const ids = () => page.evaluate(() => [...document.querySelectorAll(".window-rows .id")].map((link) => link.title));
  const status = (text) => page.waitFor(`the status ${text}`, (wanted) => document.querySelector(".status-line").textContent === wanted, text);
  const requests = () => page.evaluate(() => performance.getEntriesByType("resource").filter(({ name }) => name.includes("/v1/webhook-outbox/events")).length);

  await page.goto(`${base}#/live`);
  await page.waitFor("live updates", () => document.querySelector("#connection").dataset.state === "live");
  await page.fill(".filters input", "order.rare");
  await page.waitForText("Waiting for the next delivery.");
  burst(2 * BURST);
  await status("8 of this session, newest first");
  assert(await requests() === 0, "the tail looks events up");
  await page.waitForText("https://rare.example/");
  await page.fill(".filters input", "usual.example");
  await status("3,992 of this session, newest first");
  await page.fill(".filters input", "");
  await status("4,000 of this session, newest first");

  // Nothing moves under the pointer, nor under the focus.
  await page.hover(".window-rows .row:nth-child(3)");
  await page.waitForText("held while you read");
  const held = await ids();
  burst(40);
  await status("held while you read, 40 newer");
  assert((await ids()).join() === held.join(), "rows moved under the pointer");
  await page.point(5, 5);
  await page.waitFor("the newest notice", (wanted) => document.querySelector(".window-rows .id")?.title === wanted, `order-${sent - 1}`);
  await page.evaluate(() => document.querySelector(".window-rows .id").focus());
  await page.waitForText("held while you read");
  burst(1);
  await status("held while you read, 1 newer");
  await page.evaluate(() => document.activeElement.blur());
  await status("4,041 of this session, newest first");

  // A paused tail counts what it does not show, also when more arrived than are kept, and a filter searches what it shows.
  await page.press("p");
  await status("paused, none newer");
  const paused = await ids();
  burst(10500);
  await status("paused, 10,000+ newer");
  assert((await ids()).join() === paused.join(), "the paused tail moved");
  await page.fill(".filters input", "order.rare");
  await page.waitFor("only the rare ones of before the pause", (wanted) => {
    const shown = [...document.querySelectorAll(".window-rows .id")].map((link) => Number(link.title.split("-")[1]));
    return shown.length > 0 && shown.every((number) => number % 500 === 0 && number < wanted);
  }, 4041);
  await page.press("p");
  await page.waitFor("the newest rare one", (wanted) => document.querySelector(".window-rows .id")?.title === wanted, `order-${Math.floor((sent - 1) / RARE_EVERY) * RARE_EVERY}`);
  close();
}
