// Runs axe-core in the page, at both widths and in both colours.

import { readFileSync } from "node:fs";

/** Returns a function that fails if axe-core finds a barrier in the view, or if the view is too wide. */
export async function createAxe(page, options, assert) {
  const source = readFileSync(options.axe, "utf8");
  return async (view) => {
    if (!(await page.evaluate(() => "axe" in globalThis))) await page.evaluate(`${source}; true`);
    for (const colors of ["light", "dark"]) {
      await page.setColors(colors);
      for (const width of [1400, 390]) {
        await page.resize(width, 900);
        const found = await page.evaluate(async () => {
          const { violations } = await globalThis.axe.run({ resultTypes: ["violations"] });
          return violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).slice(0, 3).join(" ")}`);
        });
        assert(found.length === 0, `${view} at ${width} px, ${colors}: ${found.join("\n")}`);
        const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
        assert(overflow <= 0, `${view} at ${width} px is ${overflow} px too wide`);
      }
    }
    await page.screenshot(`view-${view}-390-dark`);
  };
}
