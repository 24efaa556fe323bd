// An API with hostile texts in every field, and the check that none of them became markup or ran.

import { serveFake } from "./fake-server.mjs";
import { PAYLOADS } from "./payloads.mjs";

/** Serves what `answer` returns for a path and the index of the text in use, which is `state.current`. `stream` is what the notice stream sends. */
export function serveHostile(url, state, answer, stream = "") {
  const unknown = () => {
    const text = PAYLOADS[state.current];
    return { error: { code: text, message: text }, code: text, detail: text };
  };
  return serveFake(url, (path, body, request) => answer(path, state.current, request.method), { unknown, stream: (response) => response.write(stream) });
}

/** Returns functions that open a view, and check that no text became markup or ran. */
export function createChecks(page, base, assert) {
  const check = async (where) => {
    const found = await page.evaluate(() => globalThis.hit !== undefined
      || document.querySelector(":is(#view, dialog, #toast, #problem, #caller) :is(script, style, img, iframe, object, embed, video, audio, base, meta, link, template, math, marquee, custom-element, [onerror], [onload], [onfocus], [style*='javascript'])")?.outerHTML
      || [...document.querySelectorAll("a")].find((link) => link.protocol === "javascript:" || link.protocol === "data:")?.outerHTML
      || document.querySelector("#view :is(svg:not(.sparkline))")?.outerHTML || null);
    assert(!found, `${where}: a text was executed or became markup: ${found}`);
  };
  // Chromium limits how often a script may change the URL, but not how often its user may.
  const open = (hash) => page.navigate(base + hash);
  const show = async (hash, wanted) => {
    await open(hash);
    await page.waitFor(`${hash} with ${JSON.stringify(wanted)}`, (text) => document.querySelector("#view").textContent.includes(text), wanted);
    await check(hash);
  };
  return { check, open, show };
}
