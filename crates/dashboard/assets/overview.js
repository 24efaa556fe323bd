// The overview: whether webhooks flow, and what does not, at one glance.

import { getDiagnosis, getHistory, getTrouble, getWorkers } from "./api.js";
import { el } from "./dom.js";
import { createFirstSteps } from "./first-steps.js";
import { createHistoryCharts } from "./history.js";
import { createPart } from "./part.js";
import { createTiles } from "./tiles.js";
import { createTroublePanel } from "./trouble.js";
import { createVerdict } from "./verdict.js";
import { createWorkersPanel } from "./workers.js";

// The server's checks of itself are expensive.
const DIAGNOSIS_MS = 60000;
// The charts are loaded again once per step. A long step is loaded also while it grows.
const HISTORY_MS_MAX = 20000;
// The view is shown after this time at the latest, also if a part has not been loaded.
const OPENING_MS_MAX = 1500;

/** @param {import("./router.js").Route} route @returns {View} */
export function openOverview(route) {
  const verdict = createVerdict();
  const tiles = createTiles();
  const firstSteps = createFirstSteps((isShown) => {
    charts.setIdle(isShown);
    verdict.learn({ isNew: isShown });
  });
  const charts = createHistoryCharts(route.query.get("range"), () => history.refresh());
  const trouble = createTroublePanel();
  const workers = createWorkersPanel();
  const root = el("div", { class: "overview opening" },
    el("h1", { class: "sr-only" }, "Overview"),
    verdict.root, tiles.root, firstSteps.root, charts.root,
    el("div", { class: "columns" }, trouble.root, workers.root));
  const history = createPart(charts.root, "The history", () => getHistory(charts.range()), (response) => {
    historyDueAtMs = performance.now() + Math.min(response.step_seconds * 1000, HISTORY_MS_MAX);
    charts.show(response);
  });
  const parts = [
    createPart(workers.root, "The workers", getWorkers, (response) => {
      workers.show(response.workers);
      verdict.learn({ workers: response.workers });
    }),
    createPart(trouble.root, "The destinations", getTrouble, (response) => {
      trouble.show(response);
      verdict.learn({ trouble: response.counts });
    }),
  ];
  const diagnosis = createPart(verdict.root, "The server's checks of itself", getDiagnosis, ({ findings }) => verdict.learn({ findings }));
  let diagnosedAt = -DIAGNOSIS_MS;
  let historyDueAtMs = 0;
  // What is below the advice would jump as the advice arrives.
  const timer = setTimeout(open, OPENING_MS_MAX);

  function open() {
    root.classList.remove("opening");
  }

  function refresh() {
    historyDueAtMs = 0;
    return poll();
  }

  async function poll() {
    const isDiagnosisDue = performance.now() - diagnosedAt > DIAGNOSIS_MS;
    if (isDiagnosisDue) diagnosedAt = performance.now();
    const isHistoryDue = performance.now() >= historyDueAtMs;
    await Promise.all([...parts, ...(isHistoryDue ? [history] : []), ...(isDiagnosisDue ? [diagnosis] : [])].map((part) => part.refresh()));
    if (tiles.isShown()) open();
  }

  return {
    title: "Overview",
    root,
    refresh,
    poll,
    onOverview(overview) {
      tiles.show(overview);
      verdict.learn({ overview });
      firstSteps.learn(overview);
    },
    onTick: tiles.tick,
    close() {
      clearTimeout(timer);
      for (const part of [...parts, history, diagnosis]) part.close();
      charts.close();
    },
  };
}
