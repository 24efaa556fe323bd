// Dead letters in bulk: the count first, then the operation with its progress, stopped by the user, then another one to its end.

export default async function ({ page, url, options, assert }) {
  const { count } = options;
  await page.goto(`${url}#/dead-letters`);
  await page.waitForText(`${count} dead letters match`);
  await page.fill(".filters input[placeholder='Any type']", "no.such.type");
  await page.click(".filters button[type=submit]");
  await page.waitForText("0 dead letters match");
  assert(await page.evaluate(() => document.querySelector("[data-bulk=requeue]").disabled), "an action on nothing is offered");
  await page.fill(".filters input[placeholder='Any type']", "order.created");
  await page.click(".filters button[type=submit]");
  await page.waitForText(`${count} dead letters match`);

  await page.fill(".bulk-bar input", "1");
  await page.click("[data-bulk=cancel]");
  await page.waitForText(`Cancel ${count} dead letters?`);
  await page.fill("#reason", "refunded by hand");
  await page.screenshot("bulk-confirm-1400");
  await page.click("#confirm-submit");
  await page.waitFor("the page of the operation", () => location.hash.startsWith("#/bulk/"));
  await page.waitFor("progress", () => document.querySelector("progress")?.value >= 1);
  await page.waitForText("refunded by hand");
  await page.screenshot("bulk-running-1400");
  await page.click("[data-action=stop]");
  await page.click("#confirm-submit");
  await page.waitForText("stopped after");
  await page.waitForText("Stopped by");

  await page.goto(`${url}#/dead-letters`);
  await page.waitForText("dead letters match");
  await page.fill(".bulk-bar input", "1000");
  await page.click("[data-bulk=cancel]");
  await page.click("#confirm-submit");
  await page.waitFor("a finished operation", () => document.querySelector("progress.finished") !== null);
  await page.evaluate(() => { location.hash = "#/bulk"; });
  await page.waitFor("both operations in the list", () => document.querySelectorAll(".list.operations .row").length === 2);
  await page.screenshot("bulk-list-1400");
}
