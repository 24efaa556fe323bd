// The dead-letter table: loaded page by page, and reloaded after changes.

import { listDeadLetters } from "./api.js";
import { loadCaller, mayOperate } from "./caller.js";
import { byId, el, eventLink, setError, setText, updateChildren } from "./dom.js";
import { destinationUrl, formatCount, relativeTime } from "./format.js";

const PAGE = 50;
const PAGE_MAX = 200;
const RELOAD_MAX = 1000;

const table = byId("dlq-table");
const body = byId("dlq-rows");
const moreButton = byId("load-more");
const showCancelled = byId("show-cancelled");
const rows = new Map();
let events = null;
let cursor = null;
// The number of events in the list, with or without cancelled ones.
let failedCount = null;
// The first such count after the list was loaded. If a later count differs, the list has changed.
let countAtLoad = null;
let changed = false;
let lastLoad = Promise.resolve();
let handlers;

/** Calls `onAction(name, event)` for a button, and `onError(error)` after an error. */
export function initDeadLetters(callbacks) {
  handlers = callbacks;
  byId("refresh").addEventListener("click", refreshList);
  moreButton.addEventListener("click", loadMore);
  // A browser may restore the box as the user left it.
  showCancelled.addEventListener("change", refreshList);
}

/** Loads as many rows again as are shown. */
export function refreshList() {
  return loadExclusively(async () => {
    setChanged(false);
    countAtLoad = null;
    const wanted = Math.min(Math.max(events?.length ?? 0, PAGE), RELOAD_MAX);
    const loaded = await loadPages(wanted, null);
    events = loaded.events;
    cursor = loaded.cursor;
    countAtLoad = null;
  });
}

function loadMore() {
  return loadExclusively(async () => {
    const next = await loadPages(PAGE, cursor);
    // An event that was updated since the previous page may appear again.
    const known = new Set(events.map((event) => event.event_id));
    events = events.concat(next.events.filter((event) => !known.has(event.event_id)));
    cursor = next.cursor;
  });
}

/** Marks the list as outdated, and reloads it if that disturbs nothing. */
export function markListChanged() {
  setChanged(true);
  refreshIfIdle();
}

/** Compares the overview's failed count to detect changes of the list. */
export function updateFailedCount(overview) {
  failedCount = overview.failed_count - (showCancelled.checked ? 0 : overview.cancelled_count);
  setText(byId("cancelled"), formatCount(overview.cancelled_count));
  countAtLoad ??= failedCount;
  if (failedCount !== countAtLoad) setChanged(true);
  showSize();
  refreshIfIdle();
}

/** Reloads a changed list, unless the user is reading or using it. */
function refreshIfIdle() {
  const busy = (events?.length ?? 0) > PAGE || window.scrollY > 40 || document.querySelector("dialog[open]")
    || table.matches(":hover") || table.contains(document.activeElement);
  if (changed && !busy) refreshList();
}

async function loadPages(wanted, after) {
  await loadCaller();
  const found = [];
  let next = after;
  do {
    const page = await listDeadLetters(Math.min(wanted - found.length, PAGE_MAX), next, showCancelled.checked);
    found.push(...page.events);
    next = page.next_cursor ?? null;
  } while (next !== null && found.length < wanted);
  return { events: found, cursor: next };
}

/** Runs one load at a time, and shows its result before the next begins. */
function loadExclusively(load) {
  lastLoad = lastLoad.then(async () => {
    setBusy(true);
    try {
      await load();
      setError(byId("dead-letters-error"), null);
    } catch (error) {
      setChanged(true);
      setError(byId("dead-letters-error"), error.status === 401 ? null : `The list could not be loaded. ${error}`);
      handlers.onError(error);
    }
    setBusy(false);
    show();
  });
  return lastLoad;
}

function setChanged(isChanged) {
  changed = isChanged;
  byId("list-changed").hidden = !isChanged || events === null;
}

function setBusy(isBusy) {
  table.setAttribute("aria-busy", isBusy);
  moreButton.disabled = isBusy;
  moreButton.textContent = isBusy ? "Loading…" : "Load more";
}

function show() {
  const known = events ?? [];
  table.hidden = known.length === 0;
  moreButton.hidden = cursor === null;
  const placeholder = byId("no-dead-letters");
  placeholder.hidden = known.length > 0;
  setText(placeholder, events === null ? "Not loaded yet." : showCancelled.checked ? "No failed events." : "No failed events that need a repair.");
  const wanted = known.map(rowOf);
  keepFocus(() => updateChildren(body, wanted));
  const ids = new Set(known.map((event) => event.event_id));
  for (const id of rows.keys()) if (!ids.has(id)) rows.delete(id);
  showSize();
}

function showSize() {
  if (events === null) return;
  const total = cursor === null ? events.length : Math.max(failedCount ?? 0, events.length);
  setText(byId("list-size"), events.length === 0 ? "" : `${formatCount(events.length)} of ${formatCount(total)}`);
}

/** If `change` removes the focused row, focuses the event's new row, or the row now in its position. */
function keepFocus(change) {
  const focused = document.activeElement?.closest?.("#dlq-rows > tr");
  const index = focused ? [...body.children].indexOf(focused) : -1;
  change();
  if (index === -1 || focused.isConnected) return;
  const sameEvent = rows.get(focused.dataset.eventId)?.row;
  const next = sameEvent?.isConnected ? sameEvent : body.children[Math.min(index, body.children.length - 1)];
  (next?.querySelector("a") ?? byId("dead-letters")).focus({ preventScroll: true });
}

function rowOf(event) {
  const known = rows.get(event.event_id);
  const version = JSON.stringify([event, mayOperate()]);
  if (known?.version === version) return known.row;
  const row = createRow(event);
  rows.set(event.event_id, { version, row });
  return row;
}

function createRow(event) {
  const cell = (name, ...children) => el("td", { role: "cell", class: name }, ...children);
  const button = (action, label, className) => {
    const element = el("button", { type: "button", class: className, "aria-label": `${label} ${event.event_id}` }, label);
    element.addEventListener("click", () => handlers.onAction(action, event));
    return element;
  };
  return el("tr", { role: "row", "data-event-id": event.event_id },
    cell("event", eventLink(event.event_id), el("span", { class: "type", title: event.event_type }, event.event_type)),
    cell("failure", destinationUrl(event.destination_url),
      el("span", { class: "excerpt", title: event.last_error },
        el("span", { class: `kind ${event.failure_kind === "cancelled" ? "" : "bad"}` }, event.failure_kind ?? "failed"),
        " ", event.last_error ?? "")),
    cell("attempts", `${formatCount(event.attempts)} / ${formatCount(event.max_attempts)}`),
    cell("when", relativeTime(event.updated_at)),
    cell("actions", ...(mayOperate() ? [button("requeue", "Requeue"), button("cancel", "Cancel", "danger")] : [])));
}
