// The operator's page: counts, notices and dead letters, kept current. It knows only what the public API tells it.

import { ApiError, currentKey, readOverview } from "./api.js";
import { ask, startActions } from "./act.js";
import { outdateCounts, showCounts } from "./counts.js";
import { expectFailed, listMayHaveChanged, read as readList, startDeadLetters } from "./deadletters.js";
import { byId, eventAddress, setText } from "./dom.js";
import { openEventIsPending, readOpenEvent, startEvent } from "./event.js";
import { renewMoments } from "./format.js";
import { askForKey, startKey } from "./key.js";
import { addNotice } from "./notices.js";
import { countNotice, drawRate } from "./rate.js";
import { follow } from "./stream.js";

const POLL_MS = 4000;
// After a notice. A slow store is asked less often.
const REFRESH_MS_MIN = 1000;
const REFRESH_SHARE = 5;
const DONE_MS = 8000;

let reading = false;
let readAgain = false;
let readAt = 0;
let tookMs = 0;
let refreshTimer = null;
let following = null;

/** Reads the overview; asked for again meanwhile, it reads once more. */
async function readCounts() {
  if (reading) {
    readAgain = true;
    return;
  }
  reading = true;
  const startedAt = performance.now();
  try {
    const overview = await readOverview();
    showCounts(overview);
    if (!byId("problem").hidden) following();
    setProblem(null);
    expectFailed(overview.failed_count);
  } catch (error) {
    outdateCounts();
    report(error);
  }
  reading = false;
  readAt = performance.now();
  tookMs = readAt - startedAt;
  if (readAgain) {
    readAgain = false;
    readCountsSoon();
  }
}

function readCountsSoon() {
  if (refreshTimer !== null) return;
  const pauseMs = Math.max(REFRESH_MS_MIN, tookMs * REFRESH_SHARE);
  refreshTimer = setTimeout(() => {
    refreshTimer = null;
    readCounts();
  }, Math.max(0, readAt + pauseMs - performance.now()));
}

/** The counts once more at the end: from then on they tell whether the list has changed since it was read. */
function readEverything() {
  readCounts();
  readOpenEvent();
  readList().then(readCounts);
}

function startOver() {
  setProblem(null);
  readEverything();
  following();
}

/** Shows what keeps the whole page from working. */
function report(error) {
  const retry = { label: "Retry now", act: startOver };
  const otherKey = { label: "Enter a key", act: () => askForKey(null) };
  if (!(error instanceof ApiError)) {
    setProblem({ title: "The API cannot be reached.", text: String(error), ...retry });
  } else if (error.status === 401) {
    // A refusal of the key before says nothing of this one.
    if (error.key !== currentKey()) return;
    if (!keyIsMissing()) askForKey(String(error));
    setProblem({ kind: "key", title: "An API key is needed.", text: String(error), ...otherKey });
  } else if (error.status === 403) {
    const text = `That needs the role viewer or operator. The API said: ${error}`;
    setProblem({ title: "This key may not read the outbox.", text, ...otherKey });
  } else {
    setProblem({ title: "The API does not give its overview.", text: String(error), ...retry });
  }
}

/** For an error that is shown where it happened: only a missing key concerns more than that. */
function reportElsewhere(error) {
  if (error instanceof ApiError && error.status === 401) report(error);
}

function keyIsMissing() {
  return byId("problem").dataset.kind === "key";
}

function setProblem(problem) {
  const strip = byId("problem");
  strip.hidden = problem === null;
  strip.dataset.kind = problem?.kind ?? "";
  if (problem === null) return;
  setText(byId("problem-title"), problem.title);
  setText(byId("problem-text"), problem.text);
  setText(byId("problem-act"), problem.label);
  byId("problem-act").onclick = problem.act;
}

function takeNotice(notice) {
  addNotice(notice);
  countNotice(notice);
  readCountsSoon();
  if (notice.type === "WebhookDLQEvent") noticedFailure();
  readOpenEvent(notice.webhook_delivery_id);
}

let failureTimer = null;

function noticedFailure() {
  failureTimer ??= setTimeout(() => {
    failureTimer = null;
    listMayHaveChanged();
  }, 2 * REFRESH_MS_MIN);
}

function showConnection(state) {
  const words = { connecting: "Connecting", live: "Live", waiting: "Reconnecting", refused: "No stream" };
  byId("connection").dataset.state = state;
  setText(byId("connection"), words[state]);
  // What was missed meanwhile is in the counts.
  if (state === "live") readCountsSoon();
}

let doneTimer = null;

function showDone(text) {
  byId("done").textContent = text;
  clearTimeout(doneTimer);
  doneTimer = setTimeout(() => { byId("done").textContent = ""; }, DONE_MS);
}

startKey(startOver);
startActions({
  onDone(text) {
    showDone(text);
    readEverything();
  },
  onError(error) {
    reportElsewhere(error);
    readEverything();
  },
});
startDeadLetters({ onAct: ask, onError: reportElsewhere });
startEvent({ onAct: ask, onError: reportElsewhere });
byId("find").addEventListener("submit", (submit) => {
  submit.preventDefault();
  const id = byId("find-id").value.trim();
  if (id) location.hash = eventAddress(id);
});

following = follow({ onNotice: takeNotice, onState: showConnection, onRefused: reportElsewhere });
readEverything();

setInterval(() => {
  // Whoever is asked for a key is not answered before there is one.
  if (document.hidden || keyIsMissing()) return;
  readCounts();
  if (openEventIsPending()) readOpenEvent();
}, POLL_MS);
setInterval(() => {
  drawRate();
  renewMoments();
}, 1000);
drawRate();
document.addEventListener("visibilitychange", () => { if (!document.hidden) readCounts(); });
window.addEventListener("online", startOver);
