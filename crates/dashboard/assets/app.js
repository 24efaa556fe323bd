// The dashboard: counts, notices and dead letters, kept up to date through the public API.

import { ApiError, currentKey, getOverview } from "./api.js";
import { confirmAction, initActions } from "./actions.js";
import { loadCaller } from "./caller.js";
import { markCountsOutdated, showCounts } from "./counts.js";
import { initDeadLetters, markListChanged, refreshList, updateFailedCount } from "./dead-letters.js";
import { byId, eventHash, setText } from "./dom.js";
import { initEventDialog, isOpenEventPending, refreshOpenEvent } from "./event.js";
import { updateTimes } from "./format.js";
import { initHeld, showHeld } from "./held.js";
import { initKeyDialog, openKeyDialog } from "./key.js";
import { addNotice } from "./notices.js";
import { countNotice, drawRate } from "./rate.js";
import { followStream } from "./stream.js";

const POLL_MS = 4000;
// Minimum time between overview requests. For a slow store, it is a multiple of the last request's duration.
const REFRESH_MS_MIN = 1000;
const REFRESH_FACTOR = 5;
const TOAST_MS = 8000;

let loading = false;
let loadAgain = false;
let loadedAt = 0;
let loadMs = 0;
let refreshTimer = null;
let restartStream = null;

/** Loads the overview. A call during a load schedules another load after it. */
async function refreshCounts() {
  if (loading) {
    loadAgain = true;
    return;
  }
  loading = true;
  const startedAt = performance.now();
  try {
    await loadCaller();
    const overview = await getOverview();
    showCounts(overview);
    if (!byId("problem").hidden) restartStream();
    setProblem(null);
    updateFailedCount(overview);
    showHeld(overview);
  } catch (error) {
    markCountsOutdated();
    reportError(error);
  }
  loading = false;
  loadedAt = performance.now();
  loadMs = loadedAt - startedAt;
  if (loadAgain) {
    loadAgain = false;
    scheduleCounts();
  }
}

function scheduleCounts() {
  if (refreshTimer !== null) return;
  const pauseMs = Math.max(REFRESH_MS_MIN, loadMs * REFRESH_FACTOR);
  refreshTimer = setTimeout(() => {
    refreshTimer = null;
    refreshCounts();
  }, Math.max(0, loadedAt + pauseMs - performance.now()));
}

/** Loads everything. Loads the counts again at the end, because they detect later changes of the list. */
function refreshAll() {
  refreshCounts();
  refreshOpenEvent();
  refreshList().then(refreshCounts);
}

function restart() {
  setProblem(null);
  refreshAll();
  restartStream();
}

/** Shows an error that affects the whole page. */
function reportError(error) {
  const retry = { label: "Retry now", act: restart };
  const otherKey = { label: "Enter a key", act: () => openKeyDialog(null) };
  if (!(error instanceof ApiError)) {
    setProblem({ title: "The API cannot be reached.", text: String(error), ...retry });
  } else if (error.status === 401) {
    // Ignore the rejection of an earlier key.
    if (error.key !== currentKey()) return;
    if (!isKeyMissing()) openKeyDialog(String(error));
    setProblem({ kind: "key", title: "An API key is required.", text: String(error), ...otherKey });
  } else if (error.status === 403) {
    const text = `It needs the role viewer or operator. Response: ${error}`;
    setProblem({ title: "This key may not read the outbox.", text, ...otherKey });
  } else {
    setProblem({ title: "The overview could not be loaded.", text: String(error), ...retry });
  }
}

/** For errors that are shown elsewhere: only a missing key affects the whole page. */
function reportMissingKey(error) {
  if (error instanceof ApiError && error.status === 401) reportError(error);
}

function isKeyMissing() {
  return byId("problem").dataset.kind === "key";
}

function setProblem(problem) {
  const banner = byId("problem");
  banner.hidden = problem === null;
  banner.dataset.kind = problem?.kind ?? "";
  if (problem === null) return;
  setText(byId("problem-title"), problem.title);
  setText(byId("problem-text"), problem.text);
  setText(byId("problem-action"), problem.label);
  byId("problem-action").onclick = problem.act;
}

function onNotice(notice) {
  // The database was restored or lost commits, so everything shown may have changed.
  if (notice.type === "NoticeLogResetEvent") {
    scheduleCounts();
    scheduleListChange();
    return;
  }
  addNotice(notice);
  countNotice(notice);
  scheduleCounts();
  if (notice.type === "WebhookDLQEvent") scheduleListChange();
  refreshOpenEvent(notice.webhook_delivery_id);
}

let listChangeTimer = null;

/** Marks the list as changed, at most every two seconds. */
function scheduleListChange() {
  listChangeTimer ??= setTimeout(() => {
    listChangeTimer = null;
    markListChanged();
  }, 2 * REFRESH_MS_MIN);
}

function showConnection(state) {
  const texts = { connecting: "Connecting", live: "Live", waiting: "Reconnecting", rejected: "No live updates" };
  byId("connection").dataset.state = state;
  setText(byId("connection"), texts[state]);
  // Events may have changed while the stream was disconnected.
  if (state === "live") scheduleCounts();
}

let toastTimer = null;

function showToast(text) {
  byId("toast").textContent = text;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => { byId("toast").textContent = ""; }, TOAST_MS);
}

initKeyDialog(restart);
initActions({
  onSuccess(text) {
    showToast(text);
    refreshAll();
  },
  onError(error) {
    reportMissingKey(error);
    refreshAll();
  },
});
initDeadLetters({ onAction: confirmAction, onError: reportMissingKey });
initHeld({ onAction: confirmAction, onError: reportMissingKey });
initEventDialog({ onAction: confirmAction, onError: reportMissingKey });
byId("find").addEventListener("submit", (submit) => {
  submit.preventDefault();
  const id = byId("find-id").value.trim();
  if (id) location.hash = eventHash(id);
});

restartStream = followStream({ onNotice, onState: showConnection, onRejected: reportMissingKey });
refreshAll();

setInterval(() => {
  // Without a key, every request would fail.
  if (document.hidden || isKeyMissing()) return;
  refreshCounts();
  if (isOpenEventPending()) refreshOpenEvent();
}, POLL_MS);
setInterval(() => {
  drawRate();
  updateTimes();
}, 1000);
drawRate();
document.addEventListener("visibilitychange", () => { if (!document.hidden) refreshCounts(); });
window.addEventListener("online", restart);
