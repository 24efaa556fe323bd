// axe-core finds nothing on any view, at both widths, in both colours.

import { readFileSync } from "node:fs";

const VIEWS = ["#/", "#/live", "#/events", "#/events/order-17-created", "#/dead-letters", "#/destinations", "#/destinations/1", "#/bulk", "#/send"];

export default async function ({ page, url, options, assert }) {
  const source = readFileSync(options.axe, "utf8");
  await page.goto(url);
  await page.waitFor("live updates", () => document.querySelector("#connection").dataset.state === "live");
  await page.evaluate(`${source}; true`);
  for (const view of VIEWS) {
    await page.evaluate((hash) => { location.hash = hash; }, view);
    await page.waitFor(`the view ${view} without "Loading"`, () => !document.querySelector("#view").innerText.includes("Loading"));
    for (const colors of ["light", "dark"]) {
      await page.setColors(colors);
      for (const width of [1400, 390]) {
        await page.resize(width, 900);
        const found = await page.evaluate(async () => {
          const { violations } = await globalThis.axe.run({ resultTypes: ["violations"] });
          return violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).slice(0, 3).join(" ")}`);
        });
        assert(found.length === 0, `${view} at ${width} px, ${colors}: ${found.join("\n")}`);
      }
    }
    await page.screenshot(`view-${view.replace(/\W+/g, "-")}-390-dark`);
  }
}
