// Texts of operators and producers are shown as text.

export default async function ({ page, url, assert }) {
  await page.goto(`${url}#/events/order-17-created`);
  await page.waitForText("Cancelled by local");
  await page.waitForText("<i>refunded</i>");
  await page.waitForText("%3Cb%3Ehook%3C/b%3E");
  assert(await page.evaluate(() => document.querySelector("#view i, #view b > b") === null), "text became markup");
  await page.goto(`${url}#/dead-letters`);
  await page.waitForText("order-19-created");
  assert(await page.evaluate(() => !document.querySelector("#view").textContent.includes("order-17-created")), "a cancelled event is among the dead letters");
  await page.fill(".filters select", "cancelled");
  await page.waitForText("order-17-created");
}
