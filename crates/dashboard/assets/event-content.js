// The content of an event: its payload and the headers of its requests. It is loaded only when the operator asks, because each look is recorded.

import { getEventContent } from "./api.js";
import { copyButton } from "./copy.js";
import { button, el, panel, setError } from "./dom.js";
import { formatCount } from "./format.js";
import { indentJson } from "./json-text.js";
import { reportMissingKey } from "./problems.js";

/** @param {string} eventId @param {() => void} onLooked called after the look was recorded */
export function createContentPanel(eventId, onLooked) {
  const error = el("p", { class: "error", role: "alert", hidden: true });
  const show = button("Show the content", load, { "data-action": "content" });
  const body = el("div", { class: "content-body" },
    el("p", { class: "muted" }, "The payload and the headers of the requests. Each look is recorded in the life of the event, with your name."), show);
  const root = panel("Content");
  root.append(error, body);

  async function load() {
    show.disabled = true;
    setError(error, null);
    try {
      showContent(await getEventContent(eventId));
      onLooked();
    } catch (problem) {
      setError(error, String(problem));
      reportMissingKey(problem);
    }
    show.disabled = false;
  }

  /** @param {Api.EventContent} content */
  function showContent(content) {
    const text = content.payload_encoding === "utf8" && !content.truncated ? indentJson(content.payload) : content.payload;
    const size = `${formatCount(content.payload_bytes)} bytes${content.payload_encoding === "utf8" ? "" : ", in base64"}${content.truncated ? ", only the beginning is shown" : ""}`;
    const headers = [...Object.entries(content.headers), ...content.sensitive_headers.map((name) => [name, null])];
    body.replaceChildren(
      el("p", { class: "content-head" }, el("span", { class: "muted" }, size), copyButton(() => content.payload, "the payload")),
      el("pre", { class: "payload", tabindex: "0", "aria-label": "Payload" }, text),
      el("p", { class: "error", hidden: !content.headers_error }, `Headers are missing: ${content.headers_error}.`),
      el("dl", { class: "facts" }, headers.map(([name, value]) => el("div", {}, el("dt", {}, name),
        el("dd", {}, value === null ? el("span", { class: "muted" }, "hidden, because it may be a credential") : value)))));
  }

  return { root };
}
