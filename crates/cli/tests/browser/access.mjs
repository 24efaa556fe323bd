// The page asks for a key, hides what its role may not do, and stores the key nowhere.

export default async function ({ page, url, options, assert }) {
  for (const { key, caller, mayOperate } of options.callers) {
    await page.goto(`${url}?${caller}#/events/order-17-created`);
    await page.waitForElement("#key-value");
    await page.fill("#key-value", key);
    await page.click("#key-form button[type=submit]");
    await page.waitForText(caller);
    await page.waitForText("Attempt 1");
    const visible = (selector) => page.evaluate((wanted) => document.querySelector(wanted)?.checkVisibility() ?? false, selector);
    assert(await visible("[data-action=requeue]") === mayOperate, `${caller}: requeue of an event`);
    assert(await visible("#nav-send") === mayOperate, `${caller}: test event`);
    await page.evaluate(() => { location.hash = "#/dead-letters"; });
    await page.waitForText("order-17-created");
    assert(await visible(".row [data-action=requeue]") === mayOperate, `${caller}: requeue in the list`);
    await page.evaluate(() => { location.hash = "#/destinations"; });
    await page.waitForText("127.0.0.1:1");
    assert(await visible(".row button[aria-label^='Resume ']") === mayOperate, `${caller}: resume`);
    const stored = await page.evaluate(() => JSON.stringify([{ ...sessionStorage }, { ...localStorage }, document.cookie, Object.values(globalThis).filter((value) => typeof value === "string")]));
    assert(!stored.includes(key), `the key is where another script can read it: ${stored}`);
  }
}
