// Takes the screenshot of the README: node docs/page/screenshot.mjs POSTHASTE CHROMIUM
//
// Starts a server with an empty database, receivers that answer, fail and hang, and a producer; waits until the charts have something
// to show; and writes docs/page/overview.png. Everything stays on this machine and ends by itself after a few minutes.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const SECONDS = 200;
const PORT = 8651;
const [, , posthaste, chromium] = process.argv;
const here = dirname(fileURLToPath(import.meta.url));
const directory = mkdtempSync(join(tmpdir(), "posthaste-screenshot-"));
const api = `http://127.0.0.1:${PORT}/v1/webhook-outbox`;
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

const receiver = createServer((request, response) => {
  request.resume();
  if (request.url.startsWith("/hangs")) return;
  const status = request.url.startsWith("/fails") || (request.url.startsWith("/flaky") && Math.random() < 0.3) ? 503 : 200;
  setTimeout(() => response.writeHead(status).end(), 5 + Math.random() ** 4 * 400);
});
await new Promise((listening) => receiver.listen(0, "127.0.0.1", listening));
const base = `http://127.0.0.1:${receiver.address().port}`;
const paths = ["/shop", "/shop", "/crm", "/ledger", "/flaky", "/fails", "/hangs"];

const server = spawn(resolve(posthaste), ["serve"], {
  cwd: directory,
  env: { POSTHASTE_LISTEN: `127.0.0.1:${PORT}`, POSTHASTE_TIMEOUT_SECONDS: "5", POSTHASTE_WORKER_ID: "worker-1" },
  stdio: "ignore",
});
let isProducing = true;
async function produce() {
  for (let second = 0; isProducing; second += 1) {
    const count = Math.round(40 + 25 * Math.sin(second / 20) + Math.random() * 10);
    const events = Array.from({ length: count }, () => {
      const path = paths[Math.floor(Math.random() ** 2 * paths.length)];
      return { destination_url: base + path, event_type: "invoice.paid", payload: {}, max_attempts: path === "/fails" ? 1 : 6 };
    });
    await fetch(`${api}/events`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(events) });
    await sleep(1000);
  }
}

try {
  for (let tries = 0; tries < 100 && !(await fetch(`${api}/overview`).catch(() => null)); tries += 1) await sleep(100);
  const producing = produce();
  for (let left = SECONDS; left > 0; left -= 20) {
    process.stderr.write(`${left} s to go\n`);
    await sleep(20_000);
  }
  // The producer and the receivers run on meanwhile: the picture shows a live rate.
  const taking = spawn("node", [
    join(here, "../../crates/cli/tests/browser/drive.mjs"), "./readme.mjs", chromium, join(directory, "browser"), `http://127.0.0.1:${PORT}/`,
    JSON.stringify({ screenshots: here }),
  ], { stdio: "inherit", timeout: 120_000 });
  const status = await new Promise((ended) => taking.once("exit", ended));
  isProducing = false;
  await producing;
  process.exitCode = status ?? 1;
} finally {
  server.kill();
  receiver.closeAllConnections();
  receiver.close();
  rmSync(directory, { recursive: true, force: true });
}
