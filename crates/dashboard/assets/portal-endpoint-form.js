// The form of a new endpoint, and of the changes to one.

import { el, field, select, setError } from "./dom.js";
import { randomKey } from "./http.js";
import { app, endIfRefused, registry } from "./portal-session.js";
import { createTypePicker } from "./portal-types.js";
import { hashOf, navigate } from "./router.js";
import { showToast } from "./toast.js";

/** @param {import("./router.js").Route} route with the id of the endpoint to change @returns {View} */
export function openEndpointForm({ id }) {
  const url = el("input", { type: "url", required: true, maxlength: "2048", placeholder: "https://example.com/webhooks", spellcheck: "false", autocomplete: "off" });
  const description = el("input", { maxlength: "1024", placeholder: "What it is for" });
  const types = createTypePicker();
  const channels = el("input", { placeholder: "All; several separated by commas", spellcheck: "false" });
  const rate = el("input", { type: "number", min: "1", max: "1000000", placeholder: "No limit", inputmode: "numeric" });
  const ordering = select({}, [["any", "As fast as possible, in any order"], ["fifo", "One at a time, in the order of publishing"]], "any");
  const error = el("p", { class: "error", role: "alert", hidden: true });
  const submitButton = el("button", { type: "submit", class: "main", disabled: id !== null }, id === null ? "Create endpoint" : "Save changes");
  const back = id === null ? "#/" : hashOf(["endpoints", id]);
  const more = el("details", {}, el("summary", {}, "More settings"),
    el("div", { class: "more-fields" }, field("Channels", channels), field("Messages per second at most", rate), field("Order", ordering)));
  const form = el("form", { class: "panel send-form", "aria-label": id === null ? "New endpoint" : "Endpoint" },
    field("Endpoint URL", url), field("Description", description), types.root, more, error,
    el("p", { class: "actions" }, submitButton, el("a", { class: "button", href: back }, "Cancel")));
  const title = id === null ? "Add an endpoint" : "Edit the endpoint";
  const root = el("div", { class: "narrow" }, el("a", { class: "up", href: back }, id === null ? "← Endpoints" : "← Endpoint"), el("h1", {}, title), form);
  let isFilled = id === null;
  let isLoaded = false;
  /** The body that was sent last, and its idempotency key: a repetition has the same key, another body has another one. */
  let sent = { text: "", key: "" };

  async function refresh() {
    try {
      const [endpoint] = await Promise.all([isFilled ? null : registry.getEndpoint(app(), String(id)), types.load()]);
      if (endpoint !== null) fill(endpoint);
      isLoaded = true;
      setError(error, null);
    } catch (problem) {
      endIfRefused(problem);
      setError(error, String(problem));
    }
  }

  /** @param {Registry.Endpoint} endpoint */
  function fill(endpoint) {
    url.value = endpoint.url;
    description.value = endpoint.description;
    types.choose(endpoint.eventTypes);
    channels.value = endpoint.channels?.join(", ") ?? "";
    rate.value = endpoint.throttleRate ?? "";
    ordering.value = endpoint.ordering;
    more.open = endpoint.channels !== null || endpoint.throttleRate !== null || endpoint.ordering !== "any";
    isFilled = true;
    submitButton.disabled = false;
  }

  function body() {
    const names = channels.value.split(",").map((/** @type {string} */ name) => name.trim()).filter(Boolean);
    return {
      url: url.value.trim(),
      description: description.value.trim(),
      eventTypes: types.chosen(),
      channels: names.length > 0 ? names : null,
      throttleRate: Number(rate.value) || null,
      ordering: ordering.value,
    };
  }

  form.addEventListener("submit", async (/** @type {SubmitEvent} */ submit) => {
    submit.preventDefault();
    setError(error, null);
    if (types.chosen()?.length === 0) return setError(error, "Choose at least one event type, or all of them.");
    const wanted = body();
    const text = JSON.stringify(wanted);
    if (text !== sent.text) sent = { text, key: randomKey() };
    submitButton.disabled = true;
    try {
      const saved = id === null ? await registry.createEndpoint(app(), wanted, sent.key) : await registry.changeEndpoint(app(), id, wanted);
      showToast(id === null ? "The endpoint is created." : "The endpoint is changed.");
      navigate(hashOf(["endpoints", saved.id]));
    } catch (problem) {
      endIfRefused(problem);
      setError(error, String(problem));
    }
    submitButton.disabled = false;
  });
  // What the user has typed must not be replaced by a poll.
  return { title, root, refresh, poll: () => { if (!isLoaded) refresh(); } };
}
