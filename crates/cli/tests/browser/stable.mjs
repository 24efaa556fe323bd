// Nothing on the page jumps while a view loads and is refreshed.

// The sum of the shifts of one view. Web Vitals call 0.1 good.
const SHIFT_MAX = 0.1;
// A slow machine may make a view jump that does not jump elsewhere. A view that jumps by itself does so every time it is loaded.
const LOADS_MAX = 3;
const VIEWS = ["#/", "#/events", "#/dead-letters", "#/destinations", "#/endpoints", "#/bulk", "#/live", "#/send", "#/events/order-17-created"];

export default async function ({ page, url, assert }) {
  await page.call("Page.addScriptToEvaluateOnNewDocument", { source: `
    // The overview shows itself after 1.5 seconds at the latest, also if a part is still loading. This test is about its usual opening.
    {
      const original = globalThis.setTimeout;
      globalThis.setTimeout = (run, ms, ...values) => original(run, ms === 1500 ? 60000 : ms, ...values);
    }
    globalThis.shifts = [];
    new PerformanceObserver((list) => globalThis.shifts.push(...list.getEntries().filter((entry) => !entry.hadRecentInput).map((entry) => ({
      value: entry.value, nodes: entry.sources.map(({ node }) => node?.className ?? node?.nodeName).join(", "),
    })))).observe({ type: "layout-shift", buffered: true });
    globalThis.polls = () => performance.getEntriesByType("resource").filter(({ name }) => name.endsWith("/overview")).length;` });
  for (const [width, height] of [[1400, 900], [390, 844]]) {
    await page.resize(width, height);
    for (const view of VIEWS) {
      const jumps = [];
      for (let load = 0; load < LOADS_MAX && jumps.length === load; load += 1) {
        await page.goto(`${url}?${width}-${load}-${encodeURIComponent(view)}${view}`);
        await page.waitFor(`the view ${view} without "Loading"`, () => document.querySelector(".opening") === null && !document.querySelector("#view").innerText.includes("Loading"));
        await page.waitFor("another poll", () => globalThis.polls() >= 2);
        const shifts = await page.evaluate(() => globalThis.shifts);
        const sum = shifts.reduce((total, { value }) => total + value, 0);
        if (sum >= SHIFT_MAX) jumps.push(`${sum.toFixed(3)}: ${JSON.stringify(shifts)}`);
      }
      assert(jumps.length < LOADS_MAX, `${view} at ${width} px jumps whenever it is loaded, by ${jumps.join("; ")}`);
    }
  }
}
