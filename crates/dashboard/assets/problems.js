// Errors that affect the whole page, and short confirmations.

import { currentKey } from "./api.js";
import { byId, setText } from "./dom.js";
import { ApiError } from "./http.js";
import { openKeyDialog } from "./key.js";

let restart = () => {};

/** @param {() => void} onRestart loads everything again */
export function initProblems(onRestart) {
  restart = onRestart;
}

/** Shows an error that affects the whole page. @param {unknown} error */
export function reportError(error) {
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

/** For errors that are shown elsewhere: only a missing key affects the whole page. @param {unknown} error */
export function reportMissingKey(error) {
  if (error instanceof ApiError && error.status === 401) reportError(error);
}

export function isKeyMissing() {
  return byId("problem").dataset.kind === "key";
}

export function hasProblem() {
  return !byId("problem").hidden;
}

/** @param {{ kind?: string, title: string, text: string, label: string, act: () => void } | null} problem */
export function setProblem(problem) {
  const banner = byId("problem");
  banner.hidden = problem === null;
  banner.dataset.kind = problem?.kind ?? "";
  if (problem === null) return;
  setText(byId("problem-title"), problem.title);
  setText(byId("problem-text"), problem.text);
  setText(byId("problem-action"), problem.label);
  byId("problem-action").onclick = problem.act;
}
