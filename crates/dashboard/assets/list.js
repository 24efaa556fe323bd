// A list that is loaded page by page, and refreshed without disturbing its reader.

import { mayOperate } from "./caller.js";
import { button, createElementCache, el, setError, setText, updateChildren } from "./dom.js";
import { formatCount, relativeTime } from "./format.js";
import { reportMissingKey } from "./problems.js";

const PAGE = 50;
const PAGE_MAX = 200;
// A refresh loads at most as many rows again.
const RELOAD_MAX = 1000;
const ROWS_MAX = 10000;
// Rows are in groups of this size. Groups out of sight are not laid out.
const GROUP = 50;

/**
 * @typedef {object} ListOptions
 * @property {string} label names the list for screen readers
 * @property {string} className chooses the columns in the style sheet
 * @property {string[]} columns headings; an empty one is for actions
 * @property {(limit: number, cursor: string | null) => Promise<{items: any[], cursor: string | null}>} load
 * @property {(item: any) => string} keyOf
 * @property {(item: any) => any[]} cells
 * @property {() => any} empty creates what is shown instead of no rows
 */

/** Creates the cell of a row. */
export function cell(className, ...children) {
  return el("div", { role: "cell", class: className }, ...children);
}

/** @param {ListOptions} options */
export function createList({ label, className, columns, load, keyOf, cells, empty }) {
  const heads = columns.map((name) => el("div", { role: "columnheader" }, name || el("span", { class: "sr-only" }, "Actions")));
  const head = el("div", { role: "rowgroup", class: "head" }, el("div", { role: "row", class: "cells" }, heads));
  const rows = el("div", { role: "rowgroup", class: "rows" });
  const table = el("div", { role: "table", class: `list ${className}`, "aria-label": label, hidden: true }, head, rows);
  const status = el("p", { class: "muted status-line", role: "status" });
  const error = el("p", { class: "error", role: "alert", hidden: true });
  const placeholder = el("div", { class: "empty" }, el("p", { class: "skeleton" }, "Loading…"));
  const more = button("Load more", loadMore, { class: "more", hidden: true });
  const root = el("div", {}, error, table, placeholder, more);
  const cache = createElementCache((item) => el("div", { role: "row", class: "row cells" }, cells(item)));
  let items = null;
  let cursor = null;
  let generation = 0;
  let last = Promise.resolve();

  async function loadPages(wanted, after) {
    const found = [];
    let next = after;
    do {
      const page = await load(Math.min(wanted - found.length, PAGE_MAX), next);
      found.push(...page.items);
      next = page.cursor ?? null;
    } while (next !== null && found.length < wanted);
    return { found, next };
  }

  /** Runs one load at a time. A load of an earlier filter is not shown. */
  function exclusively(run) {
    const mine = generation;
    last = last.then(async () => {
      if (mine !== generation) return;
      table.setAttribute("aria-busy", "true");
      more.disabled = true;
      try {
        const shown = await run();
        if (mine !== generation) return;
        ({ items, cursor } = shown);
        setError(error, null);
      } catch (problem) {
        if (mine !== generation) return;
        setError(error, problem.status === 401 ? null : `The list could not be loaded. ${problem}`);
        reportMissingKey(problem);
      }
      table.setAttribute("aria-busy", "false");
      more.disabled = false;
      show();
    });
    return last;
  }

  function refresh() {
    return exclusively(async () => {
      const wanted = Math.min(Math.max(items?.length ?? 0, PAGE), RELOAD_MAX);
      const { found, next } = await loadPages(wanted, null);
      return { items: found, cursor: next };
    });
  }

  function loadMore() {
    return exclusively(async () => {
      const { found, next } = await loadPages(Math.max(PAGE, Math.min(items.length, PAGE_MAX)), cursor);
      // An event that was updated since the previous page may appear again.
      const known = new Set(items.map(keyOf));
      return { items: items.concat(found.filter((item) => !known.has(keyOf(item)))), cursor: next };
    });
  }

  function show() {
    const known = items ?? [];
    table.hidden = known.length === 0;
    placeholder.hidden = known.length > 0;
    if (known.length === 0) placeholder.replaceChildren(items === null ? el("p", {}, "Not loaded yet.") : empty());
    more.hidden = cursor === null || known.length >= ROWS_MAX;
    table.classList.toggle("read-only", !mayOperate());
    const elements = known.map((item) => cache.get(keyOf(item), JSON.stringify([item, mayOperate()]), item));
    keepFocus(() => showRows(elements));
    cache.retain(known.map(keyOf));
    if (items === null) return;
    const count = `${formatCount(known.length)}${cursor === null ? "" : " newest"}`;
    status.replaceChildren(el("span", {}, known.length > 0 ? `${count}, ` : ""), "updated ", relativeTime(new Date().toISOString()));
  }

  function showRows(elements) {
    const count = Math.ceil(elements.length / GROUP);
    while (rows.children.length > count) rows.lastChild.remove();
    while (rows.children.length < count) rows.append(el("div", { role: "presentation", class: "group" }));
    [...rows.children].forEach((group, index) => updateChildren(group, elements.slice(index * GROUP, (index + 1) * GROUP)));
  }

  /** If `change` removes the focused row, focuses the row that is now in its position. */
  function keepFocus(change) {
    const focused = document.activeElement?.closest?.(".row");
    const rowElements = () => [...rows.querySelectorAll(".row")];
    const index = focused && rows.contains(focused) ? rowElements().indexOf(focused) : -1;
    change();
    if (index === -1 || focused.isConnected) return;
    rowElements().slice(0, index + 1).at(-1)?.querySelector("[data-open]")?.focus({ preventScroll: true });
  }

  return {
    root,
    status,
    refresh,
    /** Loads the list of another filter. */
    reset() {
      generation += 1;
      items = null;
      cursor = null;
      table.hidden = more.hidden = true;
      placeholder.hidden = false;
      placeholder.replaceChildren(el("p", { class: "skeleton" }, "Loading…"));
      setText(status, "");
      last = Promise.resolve();
      return refresh();
    },
    /** Refreshes, unless the user is reading or using the rows. */
    refreshIfIdle() {
      const busy = (items?.length ?? 0) > PAGE || window.scrollY > 60 || document.querySelector("dialog[open]")
        || rows.matches(":hover") || rows.contains(document.activeElement);
      if (!busy) refresh();
    },
  };
}
