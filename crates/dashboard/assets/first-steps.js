// What to do on a server without events. Shown instead of empty charts.

import { button, el } from "./dom.js";
import { showToast } from "./problems.js";

const RECEIVER = "posthaste secret | posthaste listen --secret-file -";

/** Creates a command with a button that copies it. */
export function command(text) {
  const copy = button("Copy", async () => {
    try {
      await navigator.clipboard.writeText(text);
      showToast("Copied.");
    } catch {
      showToast("The browser does not allow copying; select the command instead.");
    }
  }, { "aria-label": "Copy the command" });
  return el("div", { class: "command" }, el("code", { tabindex: "0" }, text), copy);
}

/** Returns the command that enqueues a first event on this server. */
export function enqueueCommand() {
  const body = '{"destination_url": "http://127.0.0.1:8700/", "event_type": "invoice.paid", "payload": {"invoice": 17}}';
  return `curl ${new URL("v1/webhook-outbox/events", document.baseURI)} -H 'content-type: application/json' -d '${body}'`;
}

export function createFirstSteps() {
  const root = el("section", { class: "panel first-steps", "aria-label": "First steps", hidden: true },
    el("h2", {}, "Send the first event"),
    el("p", { class: "muted" }, "Nothing has been enqueued yet. These two commands show a delivery from end to end."),
    el("ol", {},
      el("li", {}, el("p", {}, "Start a receiver that prints what arrives:"), command(RECEIVER)),
      el("li", {}, el("p", {}, "Enqueue an event for it:"), command(enqueueCommand())),
      el("li", {}, el("p", {}, "Or ", el("a", { href: "#/send" }, "send a test event from this page"), " and watch it arrive."))));
  return {
    root,
    show(overview) {
      root.hidden = overview.pending_count + overview.delivered_count + overview.failed_count > 0;
    },
    isShown: () => !root.hidden,
  };
}
