// The page of one message: its payload, the endpoints that get it, and every attempt.

import { copyButton } from "./copy.js";
import { button, el, panel, setError } from "./dom.js";
import { countdown, destinationUrl, formatExact, relativeTime } from "./format.js";
import { hasStatus } from "./http.js";
import { indentJson } from "./json-text.js";
import { createSequence } from "./latest.js";
import { createPace } from "./pace.js";
import { actions, app, endIfRefused, may, registry } from "./portal-session.js";
import { attemptPill, latencyText, statePill } from "./portal-words.js";
import { hashOf } from "./router.js";

const ROWS_MAX = 100;
// The longest pause between two looks at a message that is still sent.
const PAUSE_MS_MAX = 15000;

/** @param {import("./router.js").Route} route @returns {View} */
export function openMessage({ id }) {
  const messageId = String(id);
  const error = el("p", { class: "error", role: "alert", hidden: true });
  const loading = el("p", { class: "empty skeleton" }, "Loading…");
  const body = el("div", { class: "stack", hidden: true });
  const root = el("div", {}, el("a", { class: "up", href: "#/messages" }, "← Messages"), error, loading, body);
  let version = "";
  let isSettled = false;
  let isUnknown = false;
  const send = createSequence();
  const pace = createPace(PAUSE_MS_MAX);

  async function refresh() {
    const mayShow = send();
    pace.next(false);
    try {
      const page = { limit: ROWS_MAX };
      const [message, endpoints, attempts] = await Promise.all([registry.getMessage(app(), messageId),
        registry.listEndpointsOfMessage(app(), messageId, page), registry.listAttemptsOfMessage(app(), messageId, page)]);
      if (!mayShow()) return;
      setError(error, null);
      body.hidden = isUnknown = false;
      isSettled = endpoints.items.every(({ statusText }) => statusText !== "pending" && statusText !== "sending");
      const current = JSON.stringify([message, endpoints, attempts]);
      if (current !== version) {
        show(message, endpoints.items, attempts.items);
        pace.next(true);
      }
      version = current;
    } catch (problem) {
      if (!mayShow()) return;
      isUnknown = hasStatus(problem, 404);
      endIfRefused(problem);
      setError(error, String(problem));
    }
    loading.hidden = true;
  }

  /** @param {Registry.Message & { payload: string | null }} message @param {Registry.MessageEndpoint[]} endpoints @param {Registry.Attempt[]} attempts */
  function show(message, endpoints, attempts) {
    const focused = body.contains(document.activeElement) ? document.activeElement?.getAttribute("aria-label") : null;
    const payload = message.payload ?? "";
    const content = panel("Payload", el("span", { class: "end" }, copyButton(() => payload, "the payload")));
    content.append(el("pre", { class: "payload", tabindex: "0", "aria-label": "Payload" }, indentJson(payload)));
    const receivers = panel("Endpoints");
    receivers.append(endpoints.length > 0 ? el("ul", { class: "plain-list" }, endpoints.map((endpoint) => endpointRow(message.id, endpoint)))
      : el("p", { class: "empty" }, "No endpoint gets this message: none was subscribed to its type when it was published."));
    const tries = panel("Attempts");
    tries.append(attempts.length > 0 ? el("ol", { class: "timeline" }, attempts.map(attemptItem)) : el("p", { class: "empty" }, "No attempt yet."));
    body.replaceChildren(
      el("h1", { class: "event-title" }, message.eventType, el("span", { class: "mono muted" }, message.id)),
      el("p", { class: "muted" }, "Published ", relativeTime(message.timestamp), ` (${formatExact(message.timestamp)})`,
        message.eventId ? `, id ${message.eventId}` : "", message.channels ? `, on ${message.channels.join(", ")}` : ""),
      el("div", { class: "columns" }, el("div", { class: "stack" }, receivers, tries), content));
    if (focused) [...body.querySelectorAll("button")].find((element) => element.getAttribute("aria-label") === focused)?.focus();
  }

  /** Follows the message until every endpoint has it. */
  function follow() {
    if (!isSettled && !isUnknown && pace.isDue()) refresh();
  }

  return { title: messageId, root, refresh, poll: follow, onTick: follow };
}

/** @param {string} message @param {Registry.MessageEndpoint} endpoint */
function endpointRow(message, endpoint) {
  const { id, url, statusText, nextAttempt } = endpoint;
  return el("li", { class: "row" },
    el("a", { href: hashOf(["endpoints", id]), "data-open": true }, destinationUrl(url)),
    statePill({ statusText }),
    nextAttempt ? el("p", { class: "muted" }, "Next attempt ", countdown(nextAttempt)) : null,
    may("resend") ? el("p", {}, button("Resend", () => actions.resend(endpoint, message), { "data-action": "resend", "aria-label": `Resend to ${url}` })) : null);
}

/** @param {Registry.Attempt} attempt */
function attemptItem(attempt) {
  return el("li", { class: attempt.status === 0 ? "ok" : "bad" },
    el("p", { class: "what" }, el("span", {}, attemptPill(attempt), " ", el("span", { class: "muted" }, latencyText(attempt))),
      el("span", { class: "muted" }, relativeTime(attempt.timestamp))),
    el("p", { class: "muted" }, attempt.url, attempt.triggerType === 1 ? ", sent by hand" : ""),
    attempt.response ? el("pre", { class: "excerpt-block" }, attempt.response) : null);
}
