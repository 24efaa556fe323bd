// A portal whose server answers with nothing but the page says what happened, and keeps its navigation.

import { signToken } from "./portal-setup.mjs";

export default async function ({ page, url }) {
  await page.goto(`${url}portal#token=${signToken("any", { sub: "app_1", org: "org_1", exp: Math.floor(Date.now() / 1000) + 3600 })}`);
  await page.waitFor("the state of an application that is gone", () => document.querySelector(".ending")?.dataset.ending === "gone");
}
