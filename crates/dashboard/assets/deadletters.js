// The dead-letter list: read page by page, and read again after whatever changes it.

import { readDeadLetters } from "./api.js";
import { byId, arrange, el, eventLink, setRefusal, setText } from "./dom.js";
import { count, destination, moment } from "./format.js";

const PAGE = 50;
const PAGE_MAX = 200;
const READ_AGAIN_MAX = 1000;

const body = byId("letters");
const rows = new Map();
let events = null;
let cursor = null;
let failedCount = null;
// How many had failed when the list was read, as far as the overview has told since.
let failedThen = null;
let changed = false;
let working = Promise.resolve();
let handlers;

/** `onAct(action, event)` is called for a button, `onError(error)` beside what is shown of it here. */
export function startDeadLetters(given) {
  handlers = given;
  byId("refresh").addEventListener("click", read);
  byId("more").addEventListener("click", more);
}

/** Reads as many rows again as are shown. */
export function read() {
  return exclusively(async () => {
    setChanged(false);
    failedThen = null;
    const wanted = Math.min(Math.max(events?.length ?? 0, PAGE), READ_AGAIN_MAX);
    const again = await pages(wanted, null);
    events = again.events;
    cursor = again.cursor;
    failedThen = null;
  });
}

function more() {
  return exclusively(async () => {
    const next = await pages(PAGE, cursor);
    // A row that was written since the page before may come twice.
    const known = new Set(events.map((event) => event.event_id));
    events = events.concat(next.events.filter((event) => !known.has(event.event_id)));
    cursor = next.cursor;
  });
}

/** The list on the server is not, or may not be, what is shown. */
export function listMayHaveChanged() {
  setChanged(true);
  readIfUndisturbing();
}

/** What the overview counts. */
export function expectFailed(failed) {
  failedCount = failed;
  failedThen ??= failed;
  if (failed !== failedThen) setChanged(true);
  showSize();
  readIfUndisturbing();
}

/** Rows never move while someone reads further down, points at one, or works on one. */
function readIfUndisturbing() {
  const list = byId("list");
  const disturbing = (events?.length ?? 0) > PAGE || window.scrollY > 40 || document.querySelector("dialog[open]")
    || list.matches(":hover") || list.contains(document.activeElement);
  if (changed && !disturbing) read();
}

async function pages(wanted, after) {
  const found = [];
  let next = after;
  do {
    const page = await readDeadLetters(Math.min(wanted - found.length, PAGE_MAX), next);
    found.push(...page.events);
    next = page.next_cursor ?? null;
  } while (next !== null && found.length < wanted);
  return { events: found, cursor: next };
}

/** One reading at a time; what it led to is shown before the next begins. */
function exclusively(reading) {
  working = working.then(async () => {
    setBusy(true);
    try {
      await reading();
      setRefusal(byId("dead-letters-error"), null);
    } catch (error) {
      setChanged(true);
      setRefusal(byId("dead-letters-error"), error.status === 401 ? null : `The list could not be read. ${error}`);
      handlers.onError(error);
    }
    setBusy(false);
    show();
  });
  return working;
}

function setChanged(is) {
  changed = is;
  byId("changed").hidden = !is || events === null;
}

function setBusy(is) {
  byId("list").setAttribute("aria-busy", is);
  byId("more").disabled = is;
  byId("more").textContent = is ? "Reading…" : "Load more";
}

function show() {
  const known = events ?? [];
  byId("list").hidden = known.length === 0;
  byId("more").hidden = cursor === null;
  const nothing = byId("nothing");
  nothing.hidden = known.length > 0;
  setText(nothing, events === null ? "Not read yet." : "Nothing has failed.");
  const wanted = known.map(rowOf);
  keepFocus(() => arrange(body, wanted));
  const ids = new Set(known.map((event) => event.event_id));
  for (const id of rows.keys()) if (!ids.has(id)) rows.delete(id);
  showSize();
}

function showSize() {
  if (events === null) return;
  const all = cursor === null ? events.length : Math.max(failedCount ?? 0, events.length);
  setText(byId("shown"), events.length === 0 ? "" : `${count(events.length)} of ${count(all)}`);
}

/** Where the focused row goes away, the event's new row gets the focus, or else the row that takes its place. */
function keepFocus(change) {
  const focused = document.activeElement?.closest?.("#letters > tr");
  const index = focused ? [...body.children].indexOf(focused) : -1;
  change();
  if (index === -1 || focused.isConnected) return;
  const same = rows.get(focused.dataset.eventId)?.row;
  const heir = same?.isConnected ? same : body.children[Math.min(index, body.children.length - 1)];
  (heir?.querySelector("a") ?? byId("dead-letters")).focus({ preventScroll: true });
}

function rowOf(event) {
  const known = rows.get(event.event_id);
  const version = JSON.stringify(event);
  if (known?.version === version) return known.row;
  const row = makeRow(event);
  rows.set(event.event_id, { version, row });
  return row;
}

function makeRow(event) {
  const cell = (name, ...children) => el("td", { role: "cell", class: name }, ...children);
  const button = (action, label, tone) => {
    const made = el("button", { type: "button", class: tone, "aria-label": `${label} ${event.event_id}` }, label);
    made.addEventListener("click", () => handlers.onAct(action, event));
    return made;
  };
  return el("tr", { role: "row", "data-event-id": event.event_id },
    cell("event", eventLink(event.event_id), el("span", { class: "type", title: event.event_type }, event.event_type)),
    cell("why", destination(event.destination_url),
      el("span", { class: "said", title: event.last_error },
        el("span", { class: `kind ${event.failure_kind === "cancelled" ? "" : "bad"}` }, event.failure_kind ?? "failed"),
        " ", event.last_error ?? "")),
    cell("attempts", `${count(event.attempts)} / ${count(event.max_attempts)}`),
    cell("when", moment(event.updated_at)),
    cell("acts", button("requeue", "Requeue"), button("cancel", "Cancel", "danger")));
}
