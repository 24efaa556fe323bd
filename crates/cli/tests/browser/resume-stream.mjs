// Stays until the page has opened its stream twice.

export default async function ({ page, url }) {
  await page.goto(url);
  await page.waitFor("a second connection of the stream", () =>
    performance.getEntriesByType("resource").filter((entry) => entry.name.endsWith("/stream")).length >= 2);
}
