// What to do on a server that never had an event. Shown instead of empty charts.

import { currentKey, getHistory } from "./api.js";
import { command } from "./copy.js";
import { el } from "./dom.js";

/** The longest range of the history: retention may have removed all events of a server. */
const RANGE = "30d";
const RECEIVER = "posthaste secret | posthaste listen --secret-file -";

/** Returns the command that enqueues a first event on this server. */
export function enqueueCommand() {
  const body = '{"destination_url": "http://127.0.0.1:8700/", "event_type": "invoice.paid", "payload": {"invoice": 17}}';
  // The shell inserts the key, so that it is neither on the screen nor in the shell's history.
  const authorization = currentKey() === null ? "" : ' -H "authorization: Bearer $POSTHASTE_API_KEY"';
  return `curl ${new URL("v1/webhook-outbox/events", document.baseURI)}${authorization} -H 'content-type: application/json' -d '${body}'`;
}

/** @param {(isShown: boolean) => void} onChange */
export function createFirstSteps(onChange) {
  /** Whether the server ever had an event; null until that is known. @type {boolean | null} */
  let wasUsed = null;
  let isAsking = false;
  const enqueue = el("li", {});
  const root = el("section", { class: "panel first-steps", "aria-label": "First steps", hidden: true },
    el("h2", {}, "Send the first event"),
    el("p", { class: "muted" }, "Nothing has been enqueued yet. These two commands show a delivery from end to end."),
    el("ol", {},
      el("li", {}, el("p", {}, "Start a receiver that prints what arrives:"), command(RECEIVER)),
      enqueue,
      el("li", {}, el("p", {}, "Or ", el("a", { href: "#/send" }, "send a test event from this page"), " and watch it arrive."))));

  function show() {
    const text = enqueueCommand();
    if (!enqueue.textContent.includes(text)) enqueue.replaceChildren(el("p", {}, currentKey() === null ? "Enqueue an event for it:" : "Enqueue an event for it, with a key of the role producer in POSTHASTE_API_KEY:"), command(text));
    root.hidden = wasUsed !== false;
    onChange(!root.hidden);
  }

  async function askHistory() {
    isAsking = true;
    // The charts show an error, and the next overview asks again.
    const points = await getHistory(RANGE).then((history) => history.points, () => null);
    isAsking = false;
    if (points === null) return;
    wasUsed ??= points.some((point) => point.delivered_count + point.retried_count + point.failed_count > 0);
    show();
  }

  return {
    root,
    /** @param {Api.Overview} overview */
    learn(overview) {
      if (overview.pending_count + overview.delivered_count + overview.failed_count > 0) wasUsed = true;
      else if (wasUsed === null && !isAsking) askHistory();
      show();
    },
  };
}
