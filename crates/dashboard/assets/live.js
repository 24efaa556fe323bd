// The live tail of `gateway:webhooks`: every delivery and every dead letter as it happens.

import { button, el, field, oncePerFrame, select, setText } from "./dom.js";
import { UNKNOWN, destinationUrl, eventLink, formatCount, pill, relativeTime } from "./format.js";
import { keptNotices } from "./notice-log.js";
import { replaceQuery } from "./router.js";
import { createWindow } from "./window.js";

const OUTCOMES = [["", "Every outcome"], ["delivered", "Delivered"], ["failed", "Dead letters"], ["disabled", "Disabled endpoints"]];

/** @param {import("./router.js").Route} route @returns {View} */
export function openLive({ query }) {
  const outcome = select({}, OUTCOMES, query.get("outcome") ?? "");
  const text = el("input", { type: "search", placeholder: "Id, type or destination contains…", value: query.get("text") ?? "", spellcheck: "false" });
  const pause = button("Pause", togglePause, { "aria-pressed": "false" });
  const status = el("p", { class: "muted status-line", role: "status" });
  const empty = el("p", { class: "empty" });
  /** @type {WeakMap<Api.Notice, HTMLElement>} */
  const elements = new WeakMap();
  const tail = createWindow({ label: "Notices", rowOf, onScroll: schedule });
  const form = el("form", { class: "filters", role: "search", "aria-label": "Filter notices" }, field("Outcome", outcome), field("Contains", text), pause);
  const root = el("div", {}, el("h1", {}, "Live"), form,
    el("section", { class: "panel", "aria-label": "Live tail" }, el("header", {}, el("h2", {}, "gateway:webhooks"), status), empty, tail.root));
  let isPaused = false;
  let isOpen = true;
  /** The log at the moment since which rows must not move. @type {ReturnType<typeof keptNotices> | null} */
  let frozen = null;

  const draw = oncePerFrame(() => {
    if (!isOpen) return;
    const now = keptNotices();
    frozen = isPaused || isInUse() ? frozen ?? now : null;
    const shown = (frozen ?? now).notices.filter(matches);
    empty.hidden = shown.length > 0;
    setText(empty, now.notices.length === 0 ? "Waiting for the next delivery. Notices appear here as they happen." : "No notice of this session matches. The next one that does appears here.");
    tail.root.hidden = shown.length === 0;
    tail.show(shown);
    setText(status, frozen === null ? `${formatCount(shown.length)} of this session, newest first` : `${isPaused ? "paused" : "held while you read"}, ${newerText(now)}`);
  });

  function schedule() {
    draw();
  }

  /** While the user reads, points at or has the focus in the rows, they must not move. */
  function isInUse() {
    return !tail.root.hidden && (tail.root.scrollTop >= 4 || tail.root.matches(":hover") || tail.root.contains(document.activeElement));
  }

  /** @param {ReturnType<typeof keptNotices>} now */
  function newerText(now) {
    const newer = now.received - (frozen?.received ?? now.received);
    const matching = now.notices.slice(0, newer).filter(matches).length;
    return matching === 0 ? "none newer" : `${formatCount(matching)}${newer > now.notices.length ? "+" : ""} newer`;
  }

  /** @param {Api.Notice} notice */
  function matches(notice) {
    if (outcome.value && outcomeOf(notice).group !== outcome.value) return false;
    const wanted = text.value.trim().toLowerCase();
    return !wanted || [notice.webhook_delivery_id, notice.event_type, notice.destination_url].some((value) => value?.toLowerCase().includes(wanted));
  }

  /** @param {Api.Notice} notice */
  function rowOf(notice) {
    const element = elements.get(notice) ?? createRow(notice);
    elements.set(notice, element);
    return element;
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
    schedule();
  }

  form.addEventListener("submit", (/** @type {SubmitEvent} */ submit) => submit.preventDefault());
  outcome.addEventListener("change", filter);
  text.addEventListener("input", filter);
  for (const change of ["pointerenter", "pointerleave", "focusin", "focusout"]) tail.root.addEventListener(change, schedule);
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
    },
  };
}

/** The word, the colour and the filter of a notice. A cancelled event is no alarm: an operator wanted it. @param {Api.Notice} notice */
function outcomeOf(notice) {
  if (notice.type === "WebhookDeliveredEvent") return { word: "delivered", color: "ok", group: "delivered" };
  if (notice.type === "WebhookDLQEvent") return { word: notice.failure_kind ?? "failed", color: notice.failure_kind === "cancelled" ? "" : "bad", group: "failed" };
  if (notice.type === "WebhookEndpointDisabledEvent") return { word: "endpoint disabled", color: "warn", group: "disabled" };
  return { word: String(notice.type), color: "", group: "other" };
}

/** @param {Api.Notice} notice */
function createRow(notice) {
  const { word, color } = outcomeOf(notice);
  const { event_type: type, destination_url: url } = notice;
  return el("li", { class: "row notice" },
    el("span", {}, pill(word, color)),
    eventLink(notice.webhook_delivery_id),
    el("span", { class: "clip", title: type }, type ?? UNKNOWN),
    url ? destinationUrl(url) : el("span", { class: "muted" }, notice.reason ?? UNKNOWN),
    el("span", { class: "muted number" }, notice.attempts > 1 ? `${formatCount(notice.attempts)} attempts` : ""),
    relativeTime(notice.at));
}
