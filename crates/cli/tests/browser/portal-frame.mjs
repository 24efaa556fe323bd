// Only configured origins may show the portal in a frame, and none the operators' page.

import { createApi, createPortal } from "./portal-setup.mjs";

export default async function ({ page, url, options, assert, until }) {
  const portal = await createPortal(createApi(url), "Northwind Traders");

  /** Shows an address in a frame of another page, and returns the text of the frame. */
  const frame = async (host, address) => {
    await page.goto(host);
    await page.evaluate((source) => {
      const element = document.createElement("iframe");
      element.addEventListener("load", () => { globalThis.isLoaded = true; });
      element.src = source;
      element.width = 900;
      element.height = 500;
      document.body.append(element);
    }, address);
    await page.waitFor("the frame", () => globalThis.isLoaded);
  };
  const text = async () => JSON.stringify(await page.call("DOM.getDocument", { depth: -1, pierce: true }));
  const refused = async (host, address) => {
    await frame(host, address);
    const { frameTree } = await page.call("Page.getFrameTree");
    assert(frameTree.childFrames[0].frame.unreachableUrl, `${host} shows ${address}`);
    await until(() => `the reason why ${address} is not shown, and not ${page.errors}`, () => page.errors.some((error) => error.includes("frame-ancestors")));
    page.errors.length = 0;
  };

  await frame(options.allowed, portal.url);
  await until("the portal in the frame of a configured origin", async () => (await text()).includes("No endpoints yet"));
  assert((await text()).includes("Northwind Traders"), "the frame shows something else");
  await page.screenshot("portal-framed-1400");
  await refused(options.other, portal.url);
  await refused(options.allowed, url);
}
