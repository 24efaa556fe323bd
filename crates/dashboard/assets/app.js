// The operator's page: opens the view of the URL, and keeps it up to date through the public API.

import { describeActionError } from "./actions.js";
import { getOverview } from "./api.js";
import { loadCaller } from "./caller.js";
import { initConfirm } from "./confirm.js";
import { byId, setText } from "./dom.js";
import { destinationIdOf } from "./endpoint-id.js";
import { updateTimes } from "./format.js";
import { initKeyDialog } from "./key.js";
import { initKeyboard } from "./keyboard.js";
import { showNavigation, announceCounts } from "./navigation.js";
import { keepNotices } from "./notice-log.js";
import { hasProblem, initProblems, isKeyMissing, reportError, reportMissingKey, setProblem } from "./problems.js";
import { countNotices, followConnection } from "./rate.js";
import { countRunningOperations } from "./running-operations.js";
import { currentRoute, hashOf, navigate } from "./router.js";
import { followStream } from "./stream.js";
import { initTheme } from "./theme.js";
import { showView } from "./view-history.js";
import { openBulk } from "./bulk.js";
import { openDeadLetters } from "./dead-letters.js";
import { openDestination } from "./destination.js";
import { openDestinations } from "./destinations.js";
import { openEndpoints } from "./endpoints.js";
import { openEvent } from "./event.js";
import { openEvents } from "./events.js";
import { openLive } from "./live.js";
import { openOverview } from "./overview.js";
import { openSend } from "./send.js";

const POLL_MS = 4000;
// Minimum time between overview requests. For a slow store, it is a multiple of the last request's duration.
const REFRESH_MS_MIN = 1000;
const REFRESH_FACTOR = 5;
const NOTICES_MS = 100;
const NOTICES_MAX = 5000;

/** @type {Record<string, (route: import("./router.js").Route) => View>} */
const VIEWS = {
  overview: openOverview,
  live: openLive,
  events: (route) => (route.id === null ? openEvents(route) : openEvent(route)),
  "dead-letters": openDeadLetters,
  destinations: (route) => (route.id === null ? openDestinations(route) : openDestination(route)),
  endpoints: openEndpoints,
  bulk: openBulk,
  send: openSend,
};

/** Links by the key that follows a `g`. */
const CHORDS = { o: "#/", l: "#/live", e: "#/events", d: "#/dead-letters", t: "#/destinations", n: "#/endpoints", b: "#/bulk", s: "#/send" };

/** @type {View | null} */
let view = null;
/** @type {Api.Overview | null} */
let overview = null;
/** @type {Promise<void> | null} */
let loading = null;
let loadedAt = 0;
let loadMs = 0;
/** @type {number | null} */
let refreshTimer = null;
let restartStream = () => {};

function openView() {
  const route = currentRoute();
  if (!Object.hasOwn(VIEWS, route.view)) return navigate("#/");
  const before = view;
  view = showView(before, () => VIEWS[route.view](route));
  showNavigation(route.view, overview);
  showTitle();
  if (before) setText(byId("announcement"), view.title);
  if (overview) view.onOverview?.(overview);
  loadCaller().then(() => view?.refresh(), reportError);
}

/** Loads the counts. A call during a load returns that load. */
function refreshCounts() {
  loading ??= loadCounts().finally(() => { loading = null; });
  return loading;
}

async function loadCounts() {
  const startedAt = performance.now();
  try {
    await loadCaller();
    overview = await getOverview();
    if (hasProblem()) restartStream();
    setProblem(null);
    view?.onOverview?.(overview);
    showNavigation(currentRoute().view, overview);
    announceCounts(overview);
    showTitle();
    document.body.classList.remove("outdated");
    countRunningOperations();
  } catch (error) {
    document.body.classList.add("outdated");
    reportError(error);
  }
  loadedAt = performance.now();
  loadMs = loadedAt - startedAt;
}

function scheduleCounts() {
  if (document.hidden) return;
  const pauseMs = Math.max(REFRESH_MS_MIN, loadMs * REFRESH_FACTOR);
  refreshTimer ??= setTimeout(() => {
    refreshTimer = null;
    refreshCounts();
  }, Math.max(0, loadedAt + pauseMs - performance.now()));
}

function refreshAll() {
  refreshCounts();
  view?.refresh();
}

function restart() {
  setProblem(null);
  refreshAll();
  restartStream();
}

function showTitle() {
  const broken = overview ? overview.failed_count - overview.cancelled_count : 0;
  document.title = `${broken > 0 ? `(${broken}) ` : ""}${view?.title ?? ""} · Posthaste`;
}

// Thousands of notices may arrive per second: the view gets them in batches.
/** @type {Api.Notice[]} */
let notices = [];
/** @type {number | undefined} */
let noticesTimer;

/** @param {Api.Notice} notice */
function onNotice(notice) {
  notices.push(notice);
  if (notices.length >= NOTICES_MAX) passNotices();
  else noticesTimer ??= setTimeout(passNotices, NOTICES_MS);
}

function passNotices() {
  const batch = notices;
  notices = [];
  clearTimeout(noticesTimer);
  noticesTimer = undefined;
  countNotices(batch);
  keepNotices(batch);
  view?.onNotices?.(batch);
  scheduleCounts();
}

/** @param {import("./stream.js").ConnectionState} state */
function showConnection(state) {
  const texts = { connecting: "Connecting", live: "Live", waiting: "Reconnecting", paused: "Paused while hidden", rejected: "No live updates" };
  byId("connection").dataset.state = state;
  followConnection(state === "live");
  setText(byId("connection"), texts[state]);
  // Events may have changed while the stream was disconnected.
  if (state === "live") scheduleCounts();
}

/** @param {SubmitEvent} submit */
function find(submit) {
  submit.preventDefault();
  const text = byId("find-id").value.trim();
  if (text === "") return;
  if (/^https?:\/\//i.test(text)) navigate(hashOf(["events"], { destination: text }));
  else navigate(/^ep_[0-9a-f]+$/.test(text) ? hashOf(["destinations", destinationIdOf(text)]) : hashOf(["events", text]));
  byId("find-id").blur();
}

initTheme();
initKeyDialog(restart);
initProblems(restart);
initConfirm(refreshAll, describeActionError);
initKeyboard({ chords: CHORDS, refresh: refreshAll, viewKey: (key) => view?.onKey?.(key) ?? false });
byId("find").addEventListener("submit", find);
byId("skip").addEventListener("click", (/** @type {MouseEvent} */ click) => {
  click.preventDefault();
  byId("view").focus();
});
window.addEventListener("hashchange", openView);
window.addEventListener("online", restart);
document.addEventListener("visibilitychange", () => { if (!document.hidden) refreshAll(); });
openView();
refreshCounts();
restartStream = followStream({ onNotice, onState: showConnection, onRejected: reportMissingKey, onReset: refreshAll });
setInterval(() => {
  // Without a key, every request would fail.
  if (document.hidden || isKeyMissing()) return;
  refreshCounts();
  if (view) (view.poll ?? view.refresh)();
}, POLL_MS);
setInterval(() => {
  if (document.hidden) return;
  updateTimes();
  view?.onTick?.();
}, 1000);
