// Requeues an event whose first response is lost, and repeats it.

export default async function ({ page, url }) {
  await page.goto(`${url}#/dead-letters`);
  await page.click(".row [data-action=requeue]");
  await page.click("#confirm-submit");
  await page.waitForElement("#confirm-error");
  await page.click("#confirm-submit");
  await page.waitForToast("order-17 is pending again.");
}
