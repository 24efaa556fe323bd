// Sends a test event to a URL, and shows what happens to it.

import { enqueueEvent, randomKey } from "./api.js";
import { may } from "./caller.js";
import { el, field, setError } from "./dom.js";
import { createEventPanel } from "./event.js";
import { reportMissingKey } from "./problems.js";
import { replaceQuery } from "./router.js";

const PAYLOAD = '{\n  "message": "Hello from Posthaste"\n}';

/** @param {import("./router.js").Route} route @returns {import("./app.js").View} */
export function openSend({ query }) {
  const url = el("input", { type: "url", required: true, placeholder: "A receiver, such as that of posthaste listen", value: query.get("url") ?? "http://127.0.0.1:8700/", spellcheck: "false" });
  const type = el("input", { required: true, maxlength: "256", value: query.get("type") ?? "test.event", spellcheck: "false" });
  const attempts = el("input", { type: "number", min: "1", max: "1000", value: "1", inputmode: "numeric" });
  const payload = el("textarea", { rows: "7", spellcheck: "false" });
  payload.value = PAYLOAD;
  const submitButton = el("button", { type: "submit", class: "main" }, "Send");
  const error = el("p", { class: "error", role: "alert", hidden: true });
  const form = el("form", { class: "panel send-form", "aria-label": "Test event" },
    field("Destination URL", url), field("Event type", type), field("Attempts at most", attempts), field("Payload", payload, "JSON"), error, el("p", { class: "actions" }, submitButton));
  const result = el("div", { class: "send-result" }, el("div", { class: "panel empty" },
    el("p", {}, "The event and its attempts appear here."),
    el("p", {}, "No receiver at hand? ", el("code", {}, "posthaste secret | posthaste listen --secret-file -"), " starts one on port 8700.")));
  const root = el("div", {}, el("h1", {}, "Send a test event"), el("div", { class: "columns send-columns" }, form, result));
  let watched = null;

  async function send(submit) {
    submit.preventDefault();
    setError(error, null);
    let body;
    try {
      body = JSON.parse(payload.value);
    } catch (problem) {
      return setError(error, `The payload is not JSON: ${problem.message}`);
    }
    submitButton.disabled = true;
    try {
      const event = { destination_url: url.value.trim(), event_type: type.value, payload: body, max_attempts: Number(attempts.value) || 1 };
      const { event_id: id } = await enqueueEvent(event, randomKey());
      replaceQuery({ url: url.value.trim(), type: type.value });
      watched = createEventPanel(id);
      result.replaceChildren(watched.root);
      watched.refresh();
    } catch (problem) {
      setError(error, String(problem));
      reportMissingKey(problem);
    }
    submitButton.disabled = false;
  }

  form.addEventListener("submit", send);
  return {
    title: "Send a test event",
    root,
    refresh() {
      submitButton.disabled = !may("enqueue");
      if (!may("enqueue")) setError(error, "This key may not enqueue events. It needs the role producer or operator.");
      watched?.refresh();
    },
    poll: () => watched?.refreshIfPending(),
    onTick: () => watched?.refreshIfPending(),
  };
}
