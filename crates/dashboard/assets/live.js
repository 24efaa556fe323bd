// The live tail of `gateway:webhooks`: every delivery and every dead letter as it happens.

import { getEvent, listEvents } from "./api.js";
import { button, el, field, oncePerFrame, select, setText } from "./dom.js";
import { UNKNOWN, destinationUrl, eventLink, formatCount, pill, relativeTime } from "./format.js";
import { replaceQuery } from "./router.js";
import { createWindow } from "./window.js";

const NOTICES_MAX = 10000;
const LOOKUP_MS = 800;
const LOOKUP_PAGE = 200;
const LOOKUP_SINGLE_MAX = 8;
const OUTCOMES = [["", "Every outcome"], ["delivered", "Delivered"], ["failed", "Dead letters"], ["disabled", "Disabled endpoints"]];

// Notices are kept while the page is open, also of the time that another view was shown.
/** @type {any[]} newest first */
let notices = [];
/** Types and destinations by event id, which notices do not contain. */
const known = new Map();

/** Keeps notices for the tail. */
export function keepNotices(batch) {
  notices = [...batch].reverse().concat(notices);
  if (notices.length > NOTICES_MAX) notices.length = NOTICES_MAX;
}

/** @param {import("./router.js").Route} route @returns {import("./app.js").View} */
export function openLive({ query }) {
  const outcome = select({}, OUTCOMES, query.get("outcome") ?? "");
  const text = el("input", { type: "search", placeholder: "Id, type or destination contains…", value: query.get("text") ?? "", spellcheck: "false" });
  const pause = button("Pause", togglePause, { "aria-pressed": "false" });
  const status = el("p", { class: "muted status-line", role: "status" });
  const empty = el("p", { class: "empty" }, "Waiting for the next delivery. Notices appear here as they happen.");
  const elements = new WeakMap();
  const tail = createWindow({ label: "Notices", rowOf, onScroll: (isAtTop) => { isReading = !isAtTop; schedule(); } });
  const form = el("form", { class: "filters", role: "search", "aria-label": "Filter notices" }, field("Outcome", outcome), field("Contains", text), pause);
  const root = el("div", {}, el("h1", {}, "Live"), form,
    el("section", { class: "panel", "aria-label": "Live tail" }, el("header", {}, el("h2", {}, "gateway:webhooks"), status), empty, tail.root));
  let isPaused = false;
  let isReading = false;
  let shown = [];
  let frozenAt = null;
  let lookupTimer = null;
  let isOpen = true;

  const schedule = oncePerFrame(() => {
    if (!isOpen) return;
    // While paused or scrolled down, rows must not move.
    const isFrozen = isPaused || isReading;
    if (!isFrozen) {
      frozenAt = null;
      shown = notices.filter(matches);
    } else {
      frozenAt ??= notices[0] ?? null;
    }
    const behind = isFrozen && frozenAt ? notices.indexOf(frozenAt) : 0;
    empty.hidden = shown.length > 0;
    tail.root.hidden = shown.length === 0;
    tail.show(shown);
    setText(status, isFrozen ? `${isPaused ? "paused" : "held while you read"}, ${behind > 0 ? `${formatCount(behind)} newer` : "none newer"}` : `${formatCount(shown.length)} of this session, newest first`);
    scheduleLookup();
  });

  function matches(notice) {
    if (outcome.value && outcomeOf(notice).group !== outcome.value) return false;
    const wanted = text.value.trim().toLowerCase();
    if (!wanted) return true;
    const details = known.get(notice.webhook_delivery_id);
    return [notice.webhook_delivery_id, details?.event_type, details?.destination_url].some((value) => value?.toLowerCase().includes(wanted));
  }

  function rowOf(notice) {
    const details = known.get(notice.webhook_delivery_id);
    const cached = elements.get(notice);
    if (cached && cached.details === details) return cached.element;
    const element = createRow(notice, details);
    elements.set(notice, { details, element });
    return element;
  }

  /** Looks types and destinations up in the lists of the newest events: two requests, however many notices arrived. */
  function scheduleLookup() {
    const isComplete = shown.slice(0, LOOKUP_PAGE).every((notice) => known.has(notice.webhook_delivery_id));
    if (isComplete || lookupTimer !== null) return;
    lookupTimer = setTimeout(async () => {
      try {
        const pages = await Promise.all(["delivered", "failed"].map((state) => listEvents({ status: state }, LOOKUP_PAGE)));
        if (known.size > NOTICES_MAX * 2) known.clear();
        for (const { event_id: id, event_type, destination_url } of pages.flatMap((page) => page.events)) known.set(id, known.get(id) ?? { event_type, destination_url });
        // Older events than these lists contain are looked up one by one, a few of them.
        const missing = shown.slice(0, LOOKUP_PAGE).map((notice) => notice.webhook_delivery_id).filter((id) => !known.has(id));
        for (const id of missing) known.set(id, {});
        await Promise.all(missing.slice(0, LOOKUP_SINGLE_MAX).map(async (id) => {
          const { event_type, destination_url } = await getEvent(id);
          known.set(id, { event_type, destination_url });
        }));
      } catch {}
      lookupTimer = null;
      if (isOpen) schedule();
    }, LOOKUP_MS);
  }

  function togglePause() {
    isPaused = !isPaused;
    setText(pause, isPaused ? "Continue" : "Pause");
    pause.setAttribute("aria-pressed", String(isPaused));
    if (!isPaused) tail.toTop();
    schedule();
  }

  function filter() {
    replaceQuery({ outcome: outcome.value, text: text.value.trim() });
    shown = notices.filter(matches);
    schedule();
  }

  form.addEventListener("submit", (submit) => submit.preventDefault());
  outcome.addEventListener("change", filter);
  text.addEventListener("input", filter);
  schedule();
  return {
    title: "Live",
    root,
    refresh: schedule,
    onNotices: schedule,
    onKey(key) {
      if (key !== "p") return false;
      togglePause();
      return true;
    },
    close() {
      isOpen = false;
      clearTimeout(lookupTimer);
    },
  };
}

/** The word, the colour and the filter of a notice. A cancelled event is no alarm: an operator wanted it. */
function outcomeOf(notice) {
  if (notice.type === "WebhookDeliveredEvent") return { word: "delivered", color: "ok", group: "delivered" };
  if (notice.type === "WebhookDLQEvent") return { word: notice.failure_kind ?? "failed", color: notice.failure_kind === "cancelled" ? "" : "bad", group: "failed" };
  if (notice.type === "WebhookEndpointDisabledEvent") return { word: "endpoint disabled", color: "warn", group: "disabled" };
  return { word: String(notice.type), color: "", group: "other" };
}

function createRow(notice, details) {
  const { word, color } = outcomeOf(notice);
  return el("li", { class: "row notice" },
    el("span", {}, pill(word, color)),
    eventLink(notice.webhook_delivery_id),
    el("span", { class: "clip", title: details?.event_type }, details?.event_type ?? UNKNOWN),
    details?.destination_url ? destinationUrl(details.destination_url) : el("span", { class: "muted" }, notice.reason ?? UNKNOWN),
    el("span", { class: "muted number" }, notice.attempts > 1 ? `${formatCount(notice.attempts)} attempts` : ""),
    relativeTime(notice.at));
}
