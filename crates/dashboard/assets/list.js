// A list that is loaded page by page, and refreshed without disturbing its reader.

import { serverNowMs } from "./clock.js";
import { button, createElementCache, el, setError, setText, updateChildren } from "./dom.js";
import { formatCount, formatExact, relativeTime } from "./format.js";
import { hasStatus } from "./http.js";
import { mergeHead } from "./list-merge.js";

const PAGE = 50;
const PAGE_MAX = 200;
const ROWS_MAX = 10000;
// In a list that is not by time, any row may change its place: a poll loads this many rows again.
const MOVING_ROWS_MAX = 1000;
/** How long a list is loaded again under the pointer and the focus after an action: a resend shows when it is delivered. */
const FOLLOWED_FOR_MS = 15_000;
// A search stops after as many pages without a row, so that the user sees how far it has come.
const EMPTY_PAGES_MAX = 3;
// Rows are in groups of this size. Groups out of sight are not laid out.
const GROUP = 50;

/** @typedef {import("./list-merge.js").Loaded} Loaded */
/** @typedef {{ items: any[], cursor: string | null, searchedUntil?: string | null }} Page `searchedUntil` is null at the end of a list by time */
/**
 * @typedef {object} ListOptions
 * @property {string} label names the list for screen readers
 * @property {string} className chooses the columns in the style sheet
 * @property {string[]} columns headings; an empty one is for actions
 * @property {(limit: number, cursor: string | null) => Promise<Page>} load
 * @property {(item: any) => string} keyOf
 * @property {(item: any) => string} [timeOf] the time by which the list is sorted
 * @property {(item: any) => any[]} cells
 * @property {() => any} empty creates what is shown instead of no rows
 * @property {() => boolean} mayAct whether the user may use the buttons of rows
 * @property {(error: any) => void} onError called after a load has failed
 */

/** Creates the cell of a row. @param {string} className @param {...any} children */
export function cell(className, ...children) {
  return el("div", { role: "cell", class: className }, ...children);
}

/** @param {ListOptions} options */
export function createList({ label, className, columns, load, keyOf, timeOf, cells, empty, mayAct, onError }) {
  const heads = columns.map((name) => el("div", { role: "columnheader" }, name || el("span", { class: "sr-only" }, "Actions")));
  const head = el("div", { role: "rowgroup", class: "head" }, el("div", { role: "row", class: "cells" }, heads));
  const rows = el("div", { role: "rowgroup", class: "rows" });
  const table = el("div", { role: "table", class: `list ${className}`, "aria-label": label, hidden: true }, head, rows);
  const status = el("p", { class: "muted status-line", role: "status" });
  const error = el("p", { class: "error", role: "alert", hidden: true });
  const placeholder = el("div", { class: "empty" }, el("p", { class: "skeleton" }, "Loading…"));
  const more = button("Load more", loadMore, { class: "more", hidden: true });
  const newer = el("p", { class: "newer", role: "status", hidden: true }, "There are newer rows. ", button("Show them", refresh, { class: "plain" }));
  const root = el("div", {}, error, newer, table, placeholder, more);
  const cache = createElementCache((item) => el("div", { role: "row", class: "row cells" }, cells(item)));
  /** @type {WeakMap<any, string>} */
  const versions = new WeakMap();
  /** @type {Loaded | null} */
  let shown = null;
  let shownAtMs = 0;
  let followedUntilMs = 0;
  let generation = 0;
  let waiting = 0;
  /** The latest load. @type {Promise<unknown>} */
  let last = Promise.resolve();

  /**
   * Loads pages until `wanted` rows are found, until `isEnough`, or until another filter or another view is shown.
   * @param {number} wanted @param {string | null} after @param {(found: Loaded, emptyPages: number) => boolean} isEnough @returns {Promise<Loaded>}
   */
  async function loadPages(wanted, after, isEnough) {
    const mine = generation;
    /** @type {Loaded} */
    const found = { items: [], cursor: after, searchedUntil: null, isPartial: false, isOutdated: shown?.isOutdated ?? false };
    let emptyPages = 0;
    do {
      const page = await load(Math.min(wanted - found.items.length, PAGE_MAX), found.cursor);
      found.items.push(...page.items);
      found.cursor = page.cursor ?? null;
      found.searchedUntil = page.searchedUntil ?? null;
      emptyPages += page.items.length === 0 ? 1 : 0;
    } while (isWanted(mine) && found.cursor !== null && found.items.length < wanted && !isEnough(found, emptyPages));
    found.isPartial = found.cursor !== null && found.items.length < wanted;
    return found;
  }

  /** Returns whether a load is still to be shown: not if it is of an earlier filter, or if the user has left. @param {number} loaded the generation of the load */
  function isWanted(loaded) {
    return loaded === generation && root.isConnected;
  }

  /** Runs one load at a time, also after one that failed. @param {() => Promise<Loaded>} run */
  function exclusively(run) {
    const mine = generation;
    waiting += 1;
    const load = last.then(() => isWanted(mine) && loadAndShow(run, mine)).finally(() => { waiting -= 1; });
    last = load.catch(() => {});
    return load;
  }

  /** @param {() => Promise<Loaded>} run @param {number} mine */
  async function loadAndShow(run, mine) {
    table.setAttribute("aria-busy", "true");
    try {
      const found = await run();
      if (!isWanted(mine)) return;
      shown = found;
      setError(error, null);
    } catch (problem) {
      if (!isWanted(mine)) return;
      setError(error, hasStatus(problem, 401) ? null : `The list could not be loaded. ${problem}`);
      onError(problem);
    }
    table.setAttribute("aria-busy", "false");
    try {
      show();
    } catch (problem) {
      // A bug of the page: the user sees where, and the browser's log has the rest.
      setError(error, `The list cannot be shown. ${problem}`);
      throw problem;
    }
  }

  /** Loads everything again that is shown. A search goes as far back as its last row. An action of the user may show only later. */
  function refresh() {
    followedUntilMs = serverNowMs() + FOLLOWED_FOR_MS;
    return exclusively(() => {
      const oldest = timeOf && shown?.items.length ? timeOf(shown.items[shown.items.length - 1]) : null;
      return loadHead(Math.max(shown?.items.length ?? 0, PAGE), ({ searchedUntil }, emptyPages) =>
        (oldest === null ? emptyPages >= EMPTY_PAGES_MAX : searchedUntil !== null && searchedUntil <= oldest), false);
    });
  }

  /** Loads the first rows again. A list by time has its changes in its first page. */
  function refreshHead() {
    if (waiting > 0) return last;
    const wanted = Math.max(shown?.items.length ?? 0, PAGE);
    return exclusively(() => loadHead(Math.min(wanted, timeOf ? PAGE_MAX : MOVING_ROWS_MAX), () => timeOf !== undefined, true));
  }

  /**
   * Loads the first rows again, and joins them with those that are shown. If rows may be missing between the two, the list has only
   * the former, or stays as it is if `isKept` and it has more of the latter.
   * @param {number} wanted @param {(found: Loaded, emptyPages: number) => boolean} isEnough @param {boolean} isKept
   */
  async function loadHead(wanted, isEnough, isKept) {
    const startedAtMs = serverNowMs();
    const head = await loadPages(wanted, null, isEnough);
    const merged = shown === null ? head : mergeHead(shown, shownAtMs, head, keyOf, timeOf);
    if (shown !== null && merged === null && isKept && shown.items.length > head.items.length) return { ...shown, isOutdated: true };
    shownAtMs = startedAtMs;
    return { ...(merged ?? head), isOutdated: false };
  }

  function loadMore() {
    more.disabled = true;
    exclusively(async () => {
      const present = shown?.items ?? [];
      const wanted = Math.max(PAGE, Math.min(present.length, PAGE_MAX));
      const found = await loadPages(wanted, shown?.cursor ?? null, (_, emptyPages) => emptyPages >= EMPTY_PAGES_MAX);
      // An event that was updated since the previous page may appear again.
      const known = new Set(present.map(keyOf));
      return { ...found, items: present.concat(found.items.filter((item) => !known.has(keyOf(item)))) };
    }).finally(() => { more.disabled = false; });
  }

  /** Objects are never changed after they were loaded, so each is converted once. @param {any} item */
  function versionOf(item) {
    const version = versions.get(item) ?? JSON.stringify(item);
    versions.set(item, version);
    return `${mayAct()} ${version}`;
  }

  function show() {
    const { items, cursor, searchedUntil, isPartial, isOutdated } = shown ?? { items: [], cursor: null, searchedUntil: null, isPartial: false, isOutdated: false };
    newer.hidden = !isOutdated;
    table.hidden = items.length === 0;
    placeholder.hidden = items.length > 0;
    if (items.length === 0) placeholder.replaceChildren(shown === null ? el("p", {}, "Not loaded yet.") : isPartial ? el("p", {}, "Nothing found so far.") : empty());
    more.hidden = cursor === null || items.length >= ROWS_MAX;
    setText(more, isPartial ? "Search further back" : "Load more");
    table.classList.toggle("read-only", !mayAct());
    const elements = items.map((item) => cache.get(keyOf(item), versionOf(item), item));
    keepFocus(() => showRows(elements));
    cache.retain(items.map(keyOf));
    if (shown === null) return;
    const count = `${formatCount(items.length)}${cursor === null ? "" : timeOf ? " newest" : " first"}`;
    const searched = isPartial && searchedUntil ? ["searched back to ", el("span", { title: formatExact(searchedUntil) }, relativeTime(searchedUntil)), ", "] : [];
    status.replaceChildren(el("span", {}, items.length > 0 ? `${count}, ` : ""), ...searched, "updated ", relativeTime(new Date(serverNowMs()).toISOString()));
  }

  /** @param {HTMLElement[]} elements */
  function showRows(elements) {
    const count = Math.ceil(elements.length / GROUP);
    while (rows.children.length > count) rows.lastElementChild?.remove();
    while (rows.children.length < count) rows.append(el("div", { role: "presentation", class: "group" }));
    [...rows.children].forEach((group, index) => updateChildren(group, elements.slice(index * GROUP, (index + 1) * GROUP)));
  }

  /** If `change` removes the focused row, focuses the row that is now in its position. @param {() => void} change */
  function keepFocus(change) {
    const focused = document.activeElement?.closest?.(".row");
    const rowElements = () => [...rows.querySelectorAll(".row")];
    const index = focused && rows.contains(focused) ? rowElements().indexOf(focused) : -1;
    change();
    if (index === -1 || focused?.isConnected) return;
    const link = /** @type {HTMLElement | null | undefined} */ (rowElements().slice(0, index + 1).at(-1)?.querySelector("[data-open]"));
    link?.focus({ preventScroll: true });
  }

  return {
    root,
    status,
    refresh,
    refreshHead,
    /** Loads the list of another filter. Its rows may offer other actions on the same items, so all of them are created again. */
    reset() {
      generation += 1;
      shown = null;
      cache.retain([]);
      table.hidden = more.hidden = newer.hidden = true;
      placeholder.hidden = false;
      placeholder.replaceChildren(el("p", { class: "skeleton" }, "Loading…"));
      setText(status, "");
      last = Promise.resolve();
      return refresh();
    },
    /** Loads the newest rows again, unless the user is reading or using the rows and did nothing that changes them a moment ago. */
    refreshIfIdle() {
      const isUsed = window.scrollY > 60 || rows.matches(":hover") || rows.contains(document.activeElement);
      const isFollowed = serverNowMs() < followedUntilMs;
      if (!document.querySelector("dialog[open]") && (!isUsed || isFollowed)) refreshHead();
    },
  };
}
