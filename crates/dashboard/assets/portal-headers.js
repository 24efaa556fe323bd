// The headers that an endpoint adds to its requests. Values that may be credentials are never shown again.

import { button, el, field, panel, setError } from "./dom.js";
import { app, endIfRefused, may, registry } from "./portal-session.js";
import { showToast } from "./toast.js";

/** @param {string} endpointId */
export function createHeadersPanel(endpointId) {
  const rows = el("ul", { class: "plain-list" });
  const error = el("p", { class: "error", role: "alert", hidden: true });
  const loadError = el("p", { class: "error", role: "alert", hidden: true });
  const name = el("input", { required: true, maxlength: "256", placeholder: "X-Region", spellcheck: "false", autocomplete: "off" });
  const value = el("input", { required: true, maxlength: "4096", placeholder: "eu", spellcheck: "false", autocomplete: "off" });
  const add = el("button", { type: "submit" }, "Add");
  const form = el("form", { class: "header-form", "aria-label": "Add a header" }, field("Header", name), field("Value", value), add);
  const root = panel("Custom headers");
  root.append(loadError, rows, error, may("manage") ? form : "");
  let version = "";

  async function refresh() {
    try {
      const headers = await registry.getHeaders(app(), endpointId);
      setError(loadError, null);
      if (JSON.stringify(headers) === version) return;
      version = JSON.stringify(headers);
      show(headers);
    } catch (problem) {
      endIfRefused(problem);
      setError(loadError, String(problem));
    }
  }

  /** @param {Registry.Headers} headers */
  function show({ headers, sensitive }) {
    const shown = [...Object.entries(headers), ...sensitive.map((hidden) => [hidden, null])].sort(([a], [b]) => String(a).localeCompare(String(b)));
    rows.replaceChildren(...(shown.length > 0 ? shown.map(([header, text]) => row(String(header), text)) : [el("li", { class: "muted" }, "Requests have no headers of yours.")]));
  }

  /** @param {string} header @param {string | null} text */
  function row(header, text) {
    const remove = button("Remove", () => change({ [header]: null }, `${header} is removed.`), { "aria-label": `Remove ${header}` });
    return el("li", {}, el("span", {}, el("code", {}, header), " ", text === null ? el("span", { class: "muted" }, "hidden") : el("span", { class: "header-value" }, text)),
      may("manage") ? remove : null);
  }

  /** Changes headers, and returns whether that succeeded. @param {Record<string, string | null>} headers @param {string} text */
  async function change(headers, text) {
    setError(error, null);
    add.disabled = true;
    let isChanged = false;
    try {
      await registry.changeHeaders(app(), endpointId, headers);
      isChanged = true;
      showToast(text);
    } catch (problem) {
      endIfRefused(problem);
      setError(error, String(problem));
    }
    add.disabled = false;
    refresh();
    return isChanged;
  }

  form.addEventListener("submit", async (/** @type {SubmitEvent} */ submit) => {
    submit.preventDefault();
    if (await change({ [name.value.trim()]: value.value }, `${name.value.trim()} is added.`)) form.reset();
  });
  return { root, refresh };
}
