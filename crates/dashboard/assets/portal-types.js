// The choice of event types: all of them, or some of a list that can be searched.

import { el } from "./dom.js";
import { registry } from "./portal-session.js";

const PAGE = 250;
const TYPES_MAX = 5000;

export function createTypePicker() {
  const all = el("input", { type: "radio", name: "types", value: "all", checked: true });
  const some = el("input", { type: "radio", name: "types", value: "some" });
  const search = el("input", { type: "search", placeholder: "Search event types", spellcheck: "false", "aria-label": "Search event types" });
  const options = el("div", { class: "type-options", role: "group", "aria-label": "Event types" });
  const chooser = el("div", { class: "type-chooser", hidden: true }, search, options);
  const radio = (/** @type {HTMLInputElement} */ input, /** @type {string} */ text) => el("label", { class: "choice" }, input, el("span", {}, text));
  const root = el("fieldset", { class: "type-picker" }, el("legend", {}, "Event types"),
    radio(all, "All event types, also later ones"), radio(some, "Only some event types"), chooser);
  /** @type {Map<string, HTMLInputElement>} */
  const boxes = new Map();
  /** @type {Set<string>} */
  const chosen = new Set();
  /** @type {Promise<void> | null} */
  let loading = null;

  /** @param {string} name @param {string} description */
  function addOption(name, description) {
    if (boxes.has(name)) return;
    const box = el("input", { type: "checkbox", value: name, checked: chosen.has(name) });
    box.addEventListener("change", () => (box.checked ? chosen.add(name) : chosen.delete(name)));
    boxes.set(name, box);
    options.append(el("label", { class: "choice" }, box, el("span", {}, el("code", {}, name), description ? el("span", { class: "muted" }, ` ${description}`) : null)));
  }

  function show() {
    chooser.hidden = all.checked;
  }

  async function loadTypes() {
    let cursor = null;
    do {
      const page = await registry.listEventTypes({ limit: PAGE, cursor });
      for (const { name, description } of page.items) addOption(name, description);
      cursor = page.cursor;
    } while (cursor !== null && boxes.size < TYPES_MAX);
    if (boxes.size === 0) options.append(el("p", { class: "muted" }, "No event types are registered."));
  }

  for (const input of [all, some]) input.addEventListener("change", show);
  search.addEventListener("input", () => {
    const wanted = search.value.trim().toLowerCase();
    for (const option of options.children) option.hidden = !option.textContent.toLowerCase().includes(wanted);
  });
  search.addEventListener("keydown", (/** @type {KeyboardEvent} */ press) => { if (press.key === "Enter") press.preventDefault(); });

  return {
    root,
    /** Loads the event types once. After an error, the next call tries again. */
    load() {
      loading ??= loadTypes().catch((error) => {
        loading = null;
        throw error;
      });
      return loading;
    },
    /** @param {string[] | null} names null for all */
    choose(names) {
      all.checked = names === null;
      some.checked = names !== null;
      for (const name of names ?? []) {
        chosen.add(name);
        addOption(name, "");
      }
      for (const [name, box] of boxes) box.checked = chosen.has(name);
      show();
    },
    /** Returns the chosen names, or null for all. @returns {string[] | null} */
    chosen: () => (all.checked ? null : [...chosen].sort()),
  };
}
