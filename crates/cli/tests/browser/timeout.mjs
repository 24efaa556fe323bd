// A server that accepts requests and answers none: the page says so after 15 seconds, and asks again.

import { CALM, serveFake } from "./fake-server.mjs";

/** This scenario is about the time after which the page gives up a request. */
export const keepsTimeouts = true;

export default async function ({ page, url, assert, until }) {
  /** The functions that answer the requests that wait. */
  const waiting = [];
  let isSilent = true;
  const answer = (path) => {
    if (path.includes("/whoami")) return { name: "local", role: null, permissions: ["read_all"] };
    if (path.includes("/overview")) return isSilent ? new Promise((resolve) => waiting.push(resolve)) : CALM;
    return path.includes("/events") ? { events: [], next_cursor: null, searched_until: null } : null;
  };
  const { base, close } = await serveFake(url, answer);
  await page.goto(`${base}#/events`);
  await until("a request for the counts", () => waiting.length > 0);
  assert(await page.evaluate(() => document.querySelector("#problem").hidden), "the page complains about a request that is under way");
  await page.waitForText("No response within 15 s.");
  isSilent = false;
  await page.waitFor("a page without a problem", () => document.querySelector("#problem").hidden);
  close();
}
