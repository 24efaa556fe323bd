// Destinations: pause with a reason, the reason as text, resume.

export default async function ({ page, url, assert }) {
  // An event between two attempts counts down to the next one.
  await page.goto(`${url}#/events?status=retrying`);
  await page.click(".row .id");
  await page.waitForText("Next attempt in");
  const next = await page.waitFor("a countdown", () => document.querySelector(".timeline .next time").textContent);
  await page.waitFor("a countdown that goes on", (earlier) => document.querySelector(".timeline .next time")?.textContent !== earlier, next);

  await page.goto(`${url}#/destinations`);
  await page.waitForText("1 waiting");
  await page.click("button[aria-label^='Pause ']");
  await page.fill("#reason", "<i>new disks</i>");
  await page.click("#confirm-submit");
  await page.waitForToast("is paused.");
  await page.waitForText("<i>new disks</i>");
  assert(await page.evaluate(() => document.querySelector("#view i") === null), "a reason became markup");
  await page.screenshot("destinations-1400");
  await page.click(".row [data-open]");
  await page.waitForText("pause by local");
  await page.click("button[aria-label^='Resume ']");
  await page.click("#confirm-submit");
  await page.waitForText("resume by local");
}
