// Everything works without a pointer.

export default async function ({ page, url, assert }) {
  await page.goto(url);
  await page.waitForText("dead letter");
  await page.press("/");
  await page.waitFor("the focus in the search", () => document.activeElement.id === "find-id");
  await page.press("Escape");
  await page.press("?");
  await page.waitForElement("#help");
  await page.press("Escape");
  await page.waitFor("a closed help", () => !document.querySelector("#help").open);
  await page.chord("g", "d", () => location.hash === "#/dead-letters");
  await page.waitFor("the dead letters", () => document.querySelectorAll(".row [data-action=requeue]").length === 2);
  const focused = () => page.evaluate(() => document.activeElement.title);
  await page.press("j");
  const first = await focused();
  await page.press("j");
  const second = await focused();
  assert(first && second && first !== second, `j does not move through the rows: ${first}, ${second}`);
  await page.press("k");
  assert(await focused() === first, "k does not move back");
  await page.press("r");
  await page.waitForElement("#confirm");
  await page.press("Escape");
  await page.waitFor("a closed dialog", () => !document.querySelector("#confirm").open);
  await page.chord("g", "e", () => location.hash === "#/events");
  await page.waitFor("the list of events", () => document.querySelectorAll(".list.events .row").length === 2);
  await page.press("j");
  await page.press("Enter");
  await page.waitForText("Life of the event");
  await page.press("u");
  await page.waitFor("the list again", () => location.hash === "#/events");
}
