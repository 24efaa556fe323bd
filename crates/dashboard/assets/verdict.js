// The first line of the page: whether webhooks flow. Below it, what is wrong and what to do about it.

import { el, setText } from "./dom.js";
import { formatCount, formatSeconds } from "./format.js";
import { hashOf } from "./router.js";

// A worker renews its heartbeat every few seconds.
const HEARTBEAT_SECONDS_MAX = 60;
// A due event normally waits for less than a second.
const LATE_SECONDS = 300;
// Workers take thousands of due events at once, so fewer are no sign of a lack of them.
const MANY_DUE = 1000;

/** @typedef {{ level: "bad" | "warn" | "info", text: string, href?: string, link?: string }} Advice */
/** @typedef {{ overview: Api.Overview | null, workers: Api.Worker[] | null, trouble: Api.Trouble["counts"] | null, findings: Api.Finding[], isNew: boolean }} Known what was loaded so far; `isNew` of a server that never had an event */

export function createVerdict() {
  const headline = el("p", { class: "headline", role: "status" }, "Loading…");
  const list = el("ul", { class: "advice" });
  const root = el("section", { class: "verdict", "aria-label": "State", "data-level": "unknown" }, headline, list);
  /** @type {Known} */
  const known = { overview: null, workers: null, trouble: null, findings: [], isNew: false };
  let shown = "";

  function show() {
    if (!known.overview) return;
    const advice = adviceFor(known);
    const level = levelOf(advice, known);
    root.dataset.level = level;
    setText(headline, headlineFor(level, known.overview, known.isNew));
    const version = JSON.stringify(advice);
    if (version === shown) return;
    shown = version;
    list.replaceChildren(...advice.map(({ level, text, href, link }) =>
      el("li", { class: level }, el("span", {}, text, " "), href ? el("a", { href }, link) : null)));
  }

  /** @param {Partial<Known>} found */
  function learn(found) {
    Object.assign(known, found);
    show();
  }

  return { root, learn };
}

/** What is bad is known at once. That nothing is, is known once every part was loaded. @param {Advice[]} advice @param {Known} known */
function levelOf(advice, { workers, trouble }) {
  const has = (/** @type {string} */ level) => advice.some((item) => item.level === level);
  if (has("bad")) return "bad";
  if (workers === null || trouble === null) return "unknown";
  return has("warn") ? "warn" : "ok";
}

/** @param {string} level @param {Api.Overview} overview @param {boolean} isNew */
function headlineFor(level, overview, isNew) {
  if (level === "unknown") return "Whether webhooks flow is not known yet";
  if (level === "bad") return "Webhooks are not all getting through";
  if (level === "warn") return "Webhooks flow, with something to look at";
  const total = overview.pending_count + overview.delivered_count + overview.failed_count;
  return total > 0 ? "Webhooks are flowing" : isNew ? "Ready for the first event" : "Ready for the next event";
}

/** @param {Known} known @returns {Advice[]} */
function adviceFor({ overview, workers, trouble, findings }) {
  /** @type {Advice[]} */
  const advice = [];
  if (overview === null) return advice;
  const alive = (workers ?? []).filter((worker) => worker.heartbeat_age_seconds <= HEARTBEAT_SECONDS_MAX);
  if (workers !== null && alive.length === 0 && overview.pending_count > 0) {
    advice.push({ level: "bad", text: "No worker is alive, so no event is sent. Start one with `posthaste serve` or `posthaste worker`." });
  }
  const lost = (workers ?? []).length - alive.length;
  if (lost > 0 && alive.length > 0) {
    advice.push({ level: "warn", text: `${counted(lost, "worker has", "workers have")} sent no heartbeat for over a minute. Other workers take over the events when the leases expire.` });
  }
  const open = countOf(trouble ?? [], "circuit_open");
  if (open) {
    advice.push({ level: "bad", text: `${counted(open.count, "destination keeps", "destinations keep", open.is_capped)} failing, so Posthaste sends single probes only. Ask the receiver, or resume it after a repair.`, href: hashOf(["destinations"], { state: "circuit_open" }), link: "Show" });
  }
  const disabled = countOf(trouble ?? [], "disabled");
  if (disabled) {
    advice.push({ level: "warn", text: `${counted(disabled.count, "endpoint is", "endpoints are", disabled.is_capped)} disabled and get no events.`, href: hashOf(["destinations"], { state: "disabled" }), link: "Show" });
  }
  const broken = overview.failed_count - overview.cancelled_count;
  if (broken > 0) {
    advice.push({ level: "bad", text: `${counted(broken, "dead letter waits", "dead letters wait")} for a decision: requeue after the receiver is repaired, or cancel.`, href: hashOf(["dead-letters"]), link: "Decide" });
  }
  const late = lateAdvice(overview);
  if (late !== null) advice.push({ level: "warn", text: late, href: hashOf(["events"], { status: "pending" }), link: "Show" });
  for (const text of overview.warnings ?? []) advice.push({ level: "warn", text: `Unsafe setting. ${text}` });
  for (const { check, verdict, finding } of findings) {
    if (verdict !== "ok") advice.push({ level: verdict === "broken" ? "bad" : "info", text: `Check of ${check}: ${finding}` });
  }
  return advice;
}

/** Says that events wait for workers. Events that wait for their destination are not late. @param {Api.Overview} overview */
function lateAdvice({ pending_ready_count: ready, held_count: held, held_count_capped: isCapped, oldest_pending_age_seconds: oldest, oldest_held_age_seconds: oldestHeld }) {
  const due = ready - held;
  if (due <= 0 || isCapped || oldest === null || oldest <= LATE_SECONDS) return null;
  if (oldestHeld === null || oldestHeld < oldest) return `The oldest pending event is ${formatSeconds(oldest)} old. If ready events pile up, add workers or concurrency.`;
  // The oldest event is a held one, so the age of the others is unknown.
  return due < MANY_DUE ? null : `${formatCount(due)} events are due, apart from those that are held. If their number grows, add workers or concurrency.`;
}

/** Returns the count of a state, unless it is zero. @param {Api.Trouble["counts"]} counts @param {string} wanted */
function countOf(counts, wanted) {
  return counts.find(({ state, count }) => state === wanted && count > 0);
}

/** @param {number} count @param {string} one @param {string} many */
function counted(count, one, many, isCapped = false) {
  return `${formatCount(count)}${isCapped ? "+" : ""} ${count === 1 ? one : many}`;
}
