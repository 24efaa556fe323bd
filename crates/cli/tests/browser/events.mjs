// Events: the list, its filters in the URL, one event with its time line, and a requeue.

export default async function ({ page, url, assert }) {
  await page.goto(`${url}#/events`);
  await page.waitForText("order-17-created");
  await page.waitForText("order-18-delivered");
  await page.fill(".filters select", "failed");
  await page.waitFor("only the failed event", () => document.querySelector("#view").textContent.includes("order-17-created") && !document.querySelector("#view").textContent.includes("order-18-delivered"));
  assert(await page.evaluate(() => location.hash === "#/events?status=failed"), "the filter is not in the URL");
  await page.screenshot("events-1400");

  // A shared link shows the same.
  const link = await page.evaluate(() => location.href);
  await page.navigate("about:blank");
  await page.goto(link);
  await page.waitFor("the filter of the link", () => document.querySelector(".filters select").value === "failed" && !document.querySelector("#view").textContent.includes("order-18-delivered"));

  await page.click(".row a[title='order-17-created']");
  await page.waitForText("Attempt 1");
  await page.waitForText("Dead letter: exhausted");
  const life = await page.evaluate(() => document.querySelector(".timeline").innerText);
  assert(life.includes("Enqueued") && life.includes("connect"), `the time line lacks a part: ${life}`);
  assert(await page.evaluate(() => document.querySelector("time[title]") !== null), "times lack their exact form");
  await page.screenshot("event-1400");
  await page.resize(390, 844);
  await page.screenshot("event-390");
  await page.resize(1400, 900);

  await page.click("[data-action=requeue]");
  await page.click("#confirm-submit");
  await page.waitForToast("order-17-created is pending again.");
  await page.waitForText("Requeued by local");

  // Links of earlier versions still work.
  await page.goto(`${url}#event=order-18-delivered`);
  await page.waitForText("HTTP 200");
  await page.waitForText("Delivered");
}
