// What the overview says while parts of it are not loaded, and on a server whose events were removed by retention.

import { CALM, refuse, serveFake } from "./fake-server.mjs";

const WORKER = { worker_id: "worker-1", version: "1", started_at: new Date().toISOString(), heartbeat_age_seconds: 1, in_flight: 0 };
const POINT = { at: new Date(Date.now() - 5 * 86400 * 1000).toISOString(), delivered_count: 7, retried_count: 0, failed_count: 0, latency_p50_ms: 1, latency_p95_ms: 1, latency_p99_ms: 1, pending_count: 0, dead_letter_count: 0 };

export default async function ({ page, url, assert }) {
  let broken = "workers";
  let overview = CALM;
  let points = [];
  const answer = (path) => {
    const { pathname, searchParams } = new URL(path, url);
    const name = pathname.split("/").pop();
    if (name === broken) return refuse(500, "not now");
    switch (name) {
      case "whoami": return { name: "local", role: null, permissions: ["read_all"] };
      case "overview": return overview;
      case "workers": return { workers: [WORKER] };
      case "trouble": return { counts: [], worst: [] };
      case "history": return { range: searchParams.get("range"), step_seconds: 60, points: searchParams.get("range") === "30d" ? points : [] };
      case "doctor": return { findings: [] };
      case "bulk": case "operations": return { operations: [], next_cursor: null };
      default: return null;
    }
  };
  const { base, close } = await serveFake(url, answer);
  const level = () => page.evaluate(() => document.querySelector(".verdict").dataset.level);
  for (broken of ["workers", "trouble"]) {
    await page.goto(`${base}?${broken}`);
    await page.waitForText("Whether webhooks flow is not known yet");
    assert(await level() === "unknown", `without ${broken}, the state is ${await level()}`);
    broken = "";
    await page.waitForText("Webhooks are flowing");
  }

  // What is wrong is said also without the other parts.
  broken = "workers";
  overview = { ...CALM, failed_count: 2 };
  await page.goto(`${base}?failed`);
  await page.waitForText("Webhooks are not all getting through");
  broken = "";

  // A new server shows the first steps, and one that only has no events any more does not.
  overview = { ...CALM, delivered_count: 0 };
  await page.goto(`${base}?new`);
  await page.waitForText("Nothing has been enqueued yet.");
  await page.waitForText("Ready for the first event");
  points = [POINT];
  await page.goto(`${base}?emptied`);
  await page.waitForText("Ready for the next event");
  await page.settle();
  assert(await page.evaluate(() => document.querySelector(".first-steps").hidden && document.querySelector(".history-section").checkVisibility()), "an emptied server claims that it never had an event");
  close();
}
