// Runs one scenario in Chromium: node drive.mjs SCENARIO CHROMIUM PROFILE URL ARGUMENTS
//
// Speaks the DevTools protocol over a pipe, so it needs no package. Every wait has a limit, and says what was missing.

import { spawn } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";

const WAIT_MS_MAX = 40000;
// The browser answers every command within this time. Some let axe-core run, or wait for a frame on a busy machine.
const COMMAND_MS_MAX = 120000;
// The keys of a chord are pressed again after this time.
const CHORD_MS_MAX = 3000;
// The bit of this key in the modifiers of a key event.
const CONTROL = 2;
// An element that still moves after this many looks moves all the time.
const LOOKS_MAX = 10;
const POLL_MS = 40;
// The page gives up a request after some seconds, and no scenario repeats an action: a slow machine gets this many times as long, which is
// longer than any wait of a scenario.
const REQUEST_TIMEOUT_FACTOR = 10;
const [, , scenario, chromium, profile, url, given] = process.argv;

const browser = spawn(chromium, [
  "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  // A page that was left would keep its connections.
  "--disable-features=BackForwardCache", "--disable-component-update", "--disable-sync", "--hide-scrollbars", "--remote-debugging-pipe", `--user-data-dir=${profile}`,
  // A page of a headless browser counts as hidden at times, and a container has a small /dev/shm.
  "--disable-background-timer-throttling", "--disable-renderer-backgrounding", "--disable-backgrounding-occluded-windows", "--disable-dev-shm-usage", "about:blank",
], { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
browser.on("exit", (code, signal) => fail(new Error(`Chromium ended with ${code ?? signal}`)));

const pending = new Map();
const listeners = [];
let lastId = 0;
let rest = Buffer.alloc(0);
browser.stdio[4].on("data", (chunk) => {
  rest = Buffer.concat([rest, chunk]);
  for (let end = rest.indexOf(0); end !== -1; end = rest.indexOf(0)) {
    const message = JSON.parse(rest.subarray(0, end).toString());
    rest = rest.subarray(end + 1);
    const waiting = pending.get(message.id);
    pending.delete(message.id);
    clearTimeout(waiting?.timer);
    if (!waiting) listeners.forEach((listener) => listener(message));
    else if (message.error) waiting.reject(new Error(JSON.stringify(message.error)));
    else waiting.resolve(message.result);
  }
});

function send(method, params = {}, sessionId = undefined) {
  lastId += 1;
  const id = lastId;
  browser.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      pending.delete(id);
      reject(new Error(`the browser did not answer ${method} within ${COMMAND_MS_MAX / 1000} s`));
    }, COMMAND_MS_MAX);
    pending.set(id, { resolve, reject, timer });
  });
}

/**
 * Calls `test` until it returns a true value, and returns that value, or null after `msMax`. The last call begins after this time: a
 * process that was stalled looks once more.
 */
async function poll(test, msMax) {
  const deadline = Date.now() + msMax;
  for (;;) {
    const isLast = Date.now() > deadline;
    const value = await test();
    if (value) return value;
    if (isLast) return null;
    await new Promise((resume) => setTimeout(resume, POLL_MS));
  }
}

/** Waits until `test` returns a true value, and returns that value. `missing` is a text, or a function that returns one. */
async function until(missing, test, msMax = WAIT_MS_MAX) {
  const value = await poll(test, msMax);
  if (!value) throw new Error(`missing after ${msMax / 1000} s: ${typeof missing === "function" ? await missing() : missing}`);
  return value;
}

/** Runs in the page: scrolls an element into view, and returns its centre once a click there would reach it. */
function locate(selector) {
  const element = document.querySelector(selector);
  if (!element?.checkVisibility() || element.disabled) return null;
  const centre = () => {
    const { left, top, width, height } = element.getBoundingClientRect();
    const [x, y] = [left + width / 2, top + height / 2];
    const hit = document.elementFromPoint(x, y);
    // The label of a control passes clicks on.
    return element.contains(hit) || hit?.closest("label")?.control === element ? { x, y } : null;
  };
  const found = centre();
  if (found !== null) return found;
  element.scrollIntoView({ block: "center", inline: "center", behavior: "instant" });
  return centre();
}

/** Runs in the page: says what is at the centre of an element. */
function coverOf(selector) {
  const box = document.querySelector(selector)?.getBoundingClientRect();
  return box ? document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2)?.outerHTML.slice(0, 300) ?? "nothing" : "no such element";
}

/** Runs in the page: keeps the texts of its toasts, each of which is shown for some seconds only. */
function recordToasts() {
  const toast = document.querySelector("#toast");
  if (toast === null || globalThis.toasts !== undefined) return;
  globalThis.toasts = [];
  new MutationObserver(() => globalThis.toasts.push(toast.textContent)).observe(toast, { childList: true });
}

/** Runs in the page before its own scripts: it gives up a request after `factor` times as long. */
function lengthenTimeouts(factor) {
  const original = AbortSignal.timeout.bind(AbortSignal);
  AbortSignal.timeout = (ms) => original(ms * factor);
}

/** A page of the browser. It waits for responses as long as its users do if `keepsTimeouts`, and longer otherwise. */
async function openPage(keepsTimeouts) {
  const { targetId } = await send("Target.createTarget", { url: "about:blank" });
  const { sessionId } = await send("Target.attachToTarget", { targetId, flatten: true });
  const call = (method, params) => send(method, params, sessionId);
  /** Errors of scripts, and violations of the content security policy. */
  const errors = [];
  listeners.push(({ method, params }) => {
    if (method === "Runtime.exceptionThrown") errors.push(params.exceptionDetails.exception?.description ?? params.exceptionDetails.text);
    if (method === "Log.entryAdded" && params.entry.source === "security") errors.push(params.entry.text);
    if (method === "Page.javascriptDialogOpening") errors.push(`a dialog of a script opened: ${params.message}`);
    if (method === "Inspector.targetCrashed") fail(new Error("the page crashed"));
  });
  for (const domain of ["Page", "Runtime", "Log", "Inspector"]) await call(`${domain}.enable`);
  if (!keepsTimeouts) await call("Page.addScriptToEvaluateOnNewDocument", { source: `(${lengthenTimeouts})(${REQUEST_TIMEOUT_FACTOR})` });

  const page = {
    errors,
    call,
    /** Calls `listener` when the browser reports an event. */
    on: (event, listener) => listeners.push(({ method }) => { if (method === event) listener(); }),
    /** Opens an address, as the address bar does. Returns when the document or the view before it is no longer shown. */
    async navigate(address) {
      const before = await page.evaluate(() => {
        globalThis.isLeft = false;
        window.addEventListener("hashchange", () => { globalThis.isLeft = true; }, { once: true });
        return location.href;
      });
      const { loaderId } = await call("Page.navigate", { url: address });
      // A new document has a loader, and none of the old one's variables. The address that is open already changes nothing.
      if (loaderId !== undefined) await page.waitFor(`the document ${address}`, () => globalThis.isLeft === undefined);
      else if (new URL(address).href !== before) await page.waitFor(`the view ${address}`, () => globalThis.isLeft);
    },
    async goto(address) {
      await page.navigate(address);
      await page.waitFor("the page's navigation", () => document.readyState === "complete" && document.querySelector("#view")?.childElementCount > 0);
      await page.evaluate(recordToasts);
    },
    /** Opens another view, as a link does. Returns when the view before it is no longer shown. */
    show: (hash) => page.evaluate((wanted) => new Promise((shown) => {
      const before = location.href;
      location.hash = wanted;
      const address = location.href;
      if (address === before) shown();
      // The page's own listener is older than this one, so it is called first.
      window.addEventListener("hashchange", ({ newURL }) => { if (newURL === address) shown(); });
    }), hash),
    async evaluate(run, ...values) {
      const expression = typeof run === "string" ? run : `(${run})(...${JSON.stringify(values)})`;
      const { result, exceptionDetails } = await call("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
      if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
      return result.value;
    },
    /** Waits until `test` returns a true value in the page, and returns it. */
    async waitFor(missing, test, ...values) {
      // A test may fail before what it looks at exists.
      const value = await poll(() => page.evaluate(test, ...values).catch(() => null), WAIT_MS_MAX);
      if (value) return value;
      const shown = await page.evaluate(() => `${location.href}\n${document.querySelector("#view")?.innerText.slice(0, 3000)}`).catch(String);
      throw new Error(`missing after ${WAIT_MS_MAX / 1000} s: ${missing}\n${shown}`);
    },
    // Parts of a shortened id are on lines of their own.
    waitForText: (text) => page.waitFor(`the text ${JSON.stringify(text)}`, (wanted) => document.body.innerText.replaceAll("\n", "").includes(wanted), text),
    /** Waits for a toast, which may be gone by now. */
    waitForToast: (text) => page.waitFor(`the toast ${JSON.stringify(text)}`, (wanted) => {
      const index = globalThis.toasts.findIndex((toast) => toast.includes(wanted));
      return index !== -1 && globalThis.toasts.splice(0, index + 1);
    }, text),
    async waitForElement(selector) {
      await page.waitFor(`the element ${selector}`, (wanted) => document.querySelector(wanted)?.checkVisibility(), selector);
    },
    /** Waits until the page has handled the responses that were sent before. */
    settle: () => page.evaluate(async () => {
      for (let round = 0; round < 3; round += 1) await fetch("v1/webhook-outbox/whoami").then((response) => response.text());
      await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
    }),
    /** Clicks as a user does: at the centre of the element, which must be in view and not covered by another one. */
    async click(selector) {
      const { x, y } = await page.hover(selector);
      // Sent together: if the page replaced the element in between, the click would be lost.
      await Promise.all(["mousePressed", "mouseReleased"].map((type) => call("Input.dispatchMouseEvent", { type, x, y, button: "left", clickCount: 1 })));
    },
    /** Moves the pointer to the centre of an element, and follows an element that moves meanwhile. */
    async hover(selector) {
      for (let looks = 1; ; looks += 1) {
        const place = await page.waitFor(`the element ${selector}, uncovered`, locate, selector).catch(async (error) => {
          throw new Error(`${error.message}\nat its place: ${await page.evaluate(coverOf, selector)}`);
        });
        await page.point(place.x, place.y);
        const now = await page.evaluate(locate, selector).catch(() => null);
        if ((now?.x === place.x && now.y === place.y) || looks === LOOKS_MAX) return place;
      }
    },
    /** Moves the pointer. */
    point: (x, y) => call("Input.dispatchMouseEvent", { type: "mouseMoved", x, y }),
    /** Presses a key as a user does. */
    async press(key) {
      const codes = { Enter: 13, Escape: 27, Tab: 9 };
      const text = codes[key] ? (key === "Enter" ? "\r" : undefined) : key;
      await call("Input.dispatchKeyEvent", { type: "keyDown", key, text, windowsVirtualKeyCode: codes[key] });
      await call("Input.dispatchKeyEvent", { type: "keyUp", key, windowsVirtualKeyCode: codes[key] });
    },
    /**
     * Presses two keys, one after the other, until `arrived` returns a true value in the page. The page forgets the first key soon, and
     * a busy machine may press the second one too late.
     */
    chord: (first, second, arrived) => until(`what ${first} ${second} opens`, async () => {
      await page.press(first);
      await page.press(second);
      return poll(() => page.evaluate(arrived), CHORD_MS_MAX);
    }),
    /** Presses a key without a character. */
    async pressKey(key, code) {
      for (const type of ["keyDown", "keyUp"]) await call("Input.dispatchKeyEvent", { type, key, windowsVirtualKeyCode: code });
    },
    /** Types a text as a user does, key by key, in the place of what a field contains. */
    async type(selector, text) {
      await page.click(selector);
      await page.waitFor(`the focus in ${selector}`, (wanted) => document.activeElement === document.querySelector(wanted), selector);
      await call("Input.dispatchKeyEvent", { type: "keyDown", key: "a", modifiers: CONTROL, windowsVirtualKeyCode: 65, commands: ["selectAll"] });
      await call("Input.dispatchKeyEvent", { type: "keyUp", key: "a", modifiers: CONTROL, windowsVirtualKeyCode: 65 });
      for (const character of text) await page.press(character);
      const typed = await page.evaluate((wanted) => document.querySelector(wanted).value, selector);
      assert(typed === text, `the field ${selector} contains ${JSON.stringify(typed)} after ${JSON.stringify(text)} was typed`);
    },
    /** Sets the value of a field at once. */
    async fill(selector, value) {
      await page.waitForElement(selector);
      await page.evaluate((wanted, text) => {
        const element = document.querySelector(wanted);
        element.value = text;
        for (const type of ["input", "change"]) element.dispatchEvent(new Event(type, { bubbles: true }));
      }, selector, value);
    },
    resize: (width, height) => call("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: false }),
    setColors: (value) => call("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value }] }),
    async screenshot(name) {
      const { data } = await call("Page.captureScreenshot", { format: "png" });
      mkdirSync(options.screenshots, { recursive: true });
      writeFileSync(`${options.screenshots}/${name}.png`, Buffer.from(data, "base64"));
    },
  };
  await page.resize(1400, 900);
  return page;
}

function assert(condition, message) {
  if (!condition) throw new Error(message);
}

function fail(error) {
  process.stderr.write(`${error.stack}\n`);
  end(1);
}

function end(code) {
  // A browser that has ended reports no further exit.
  if (browser.exitCode !== null || browser.signalCode !== null) process.exit(code);
  browser.removeAllListeners("exit");
  browser.on("exit", () => process.exit(code));
  browser.kill("SIGKILL");
}

const options = JSON.parse(given);
try {
  const { default: run, keepsTimeouts = false } = await import(scenario);
  const page = await openPage(keepsTimeouts);
  await run({ page, url, options, assert, until });
  if (page.errors.length > 0) throw new Error(`errors in the page: ${page.errors.join("\n")}`);
  end(0);
} catch (error) {
  fail(error);
}
