// The first line of the page: whether webhooks flow. Below it, what is wrong and what to do about it.

import { el, setText } from "./dom.js";
import { formatCount, formatSeconds } from "./format.js";
import { hashOf } from "./router.js";

// A worker renews its heartbeat every few seconds.
const HEARTBEAT_SECONDS_MAX = 60;
// A due event normally waits for less than a second.
const LATE_SECONDS = 300;

export function createVerdict() {
  const headline = el("p", { class: "headline", role: "status" }, "Loading…");
  const list = el("ul", { class: "advice" });
  const root = el("section", { class: "verdict", "aria-label": "State", "data-level": "unknown" }, headline, list);
  const known = { overview: null, workers: null, trouble: [], findings: [] };
  let shown = "";

  function show() {
    if (!known.overview) return;
    const advice = adviceFor(known);
    const level = advice.some((item) => item.level === "bad") ? "bad" : advice.some((item) => item.level === "warn") ? "warn" : "ok";
    root.dataset.level = level;
    setText(headline, headlineFor(level, known.overview));
    const version = JSON.stringify(advice);
    if (version === shown) return;
    shown = version;
    list.replaceChildren(...advice.map(({ level, text, href, link }) =>
      el("li", { class: level }, el("span", {}, text, " "), href ? el("a", { href }, link) : null)));
  }

  const setter = (name) => (value) => {
    known[name] = value;
    show();
  };
  return { root, setOverview: setter("overview"), setWorkers: setter("workers"), setTrouble: setter("trouble"), setFindings: setter("findings") };
}

function headlineFor(level, overview) {
  if (level === "bad") return "Webhooks are not all getting through";
  if (level === "warn") return "Webhooks flow, with something to look at";
  const total = overview.pending_count + overview.delivered_count + overview.failed_count;
  return total === 0 ? "Ready for the first event" : "Webhooks are flowing";
}

/** @returns {{ level: "bad" | "warn" | "info", text: string, href?: string, link?: string }[]} */
function adviceFor({ overview, workers, trouble, findings }) {
  const advice = [];
  const alive = workers?.filter((worker) => worker.heartbeat_age_seconds <= HEARTBEAT_SECONDS_MAX);
  if (alive?.length === 0 && overview.pending_count > 0) {
    advice.push({ level: "bad", text: "No worker is alive, so no event is sent. Start one with `posthaste serve` or `posthaste worker`." });
  }
  const lost = (workers ?? []).length - (alive ?? []).length;
  if (lost > 0 && alive.length > 0) {
    advice.push({ level: "warn", text: `${counted(lost, "worker has", "workers have")} sent no heartbeat for over a minute. Other workers take over the events when the leases expire.` });
  }
  const open = trouble.filter((destination) => destination.state === "circuit_open").length;
  if (open > 0) {
    advice.push({ level: "bad", text: `${counted(open, "destination keeps", "destinations keep")} failing, so Posthaste sends single probes only. Ask the receiver, or resume it after a repair.`, href: hashOf(["destinations"], { state: "circuit_open" }), link: "Show" });
  }
  const disabled = trouble.filter((destination) => destination.state === "disabled").length;
  if (disabled > 0) {
    advice.push({ level: "warn", text: `${counted(disabled, "endpoint is", "endpoints are")} disabled and get no events.`, href: hashOf(["destinations"], { state: "disabled" }), link: "Show" });
  }
  const broken = overview.failed_count - overview.cancelled_count;
  if (broken > 0) {
    advice.push({ level: "bad", text: `${counted(broken, "dead letter waits", "dead letters wait")} for a decision: requeue after the receiver is repaired, or cancel.`, href: hashOf(["dead-letters"]), link: "Decide" });
  }
  const oldest = overview.oldest_pending_age_seconds;
  if (overview.pending_ready_count > 0 && oldest > LATE_SECONDS && overview.held_count === 0) {
    advice.push({ level: "warn", text: `The oldest pending event is ${formatSeconds(oldest)} old. If ready events pile up, add workers or concurrency.`, href: hashOf(["events"], { status: "pending" }), link: "Show" });
  }
  for (const text of overview.warnings ?? []) advice.push({ level: "warn", text: `Unsafe setting. ${text}` });
  for (const { check, verdict, finding } of findings) {
    if (verdict !== "ok") advice.push({ level: verdict === "broken" ? "bad" : "info", text: `Check of ${check}: ${finding}` });
  }
  return advice;
}

function counted(count, one, many) {
  return `${formatCount(count)} ${count === 1 ? one : many}`;
}
