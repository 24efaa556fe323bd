// Sends a test event to a URL or to an endpoint, and shows what happens to it.

import { may, mayOperate } from "./caller.js";
import { el, setError } from "./dom.js";
import { createEventPanel } from "./event.js";
import { reportMissingKey } from "./problems.js";
import { replaceQuery } from "./router.js";
import { createEndpointTarget, createUrlTarget } from "./send-targets.js";

/** @param {import("./router.js").Route} route @returns {View} */
export function openSend({ query }) {
  const [app, endpoint] = [query.get("app"), query.get("endpoint")];
  const toEndpoint = app !== null && endpoint !== null;
  const target = toEndpoint ? createEndpointTarget(app, endpoint) : createUrlTarget(query);
  const maySend = () => (toEndpoint ? mayOperate() : may("enqueue"));
  const submitButton = el("button", { type: "submit", class: "main", disabled: true }, "Send");
  const error = el("p", { class: "error", role: "alert", hidden: true });
  const form = el("form", { class: "panel send-form", "aria-label": "Test event" }, target.fields, error, el("p", { class: "actions" }, submitButton));
  const result = el("div", { class: "send-result" }, el("div", { class: "panel empty" },
    el("p", {}, "The event and its attempts appear here."),
    toEndpoint ? el("p", {}, "The endpoint gets an example of the event type, signed like every message.")
      : el("p", {}, "No receiver at hand? ", el("code", {}, "posthaste secret | posthaste listen --secret-file -"), " starts one on port 8700.")));
  const root = el("div", {}, el("h1", {}, "Send a test event"), el("div", { class: "columns send-columns" }, form, result));
  /** @type {ReturnType<typeof createEventPanel> | null} */
  let watched = null;
  let isSending = false;

  /** @param {SubmitEvent} submit */
  async function send(submit) {
    submit.preventDefault();
    setError(error, null);
    isSending = submitButton.disabled = true;
    try {
      const id = await target.send();
      // The user may have opened another view meanwhile, whose address is not that of this one.
      if (!root.isConnected) return;
      replaceQuery(target.query());
      watched = createEventPanel(id);
      result.replaceChildren(watched.root);
      watched.refresh();
    } catch (problem) {
      setError(error, problem instanceof Error ? problem.message : String(problem));
      reportMissingKey(problem);
    } finally {
      isSending = submitButton.disabled = false;
    }
  }

  async function refresh() {
    watched?.refresh();
    try {
      await target.load();
      submitButton.disabled = isSending || !maySend();
      if (!maySend()) setError(error, `This key may not send events. It needs the role ${toEndpoint ? "operator" : "producer or operator"}.`);
    } catch (problem) {
      setError(error, String(problem));
      reportMissingKey(problem);
    }
  }

  form.addEventListener("submit", send);
  return {
    title: "Send a test event",
    root,
    refresh,
    poll: () => watched?.refreshIfPending(),
    onTick: () => watched?.refreshIfPending(),
    onNotices: (notices) => watched?.onNotices(notices),
  };
}
