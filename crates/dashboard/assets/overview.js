// The overview: whether webhooks flow, and what does not, at one glance.

import { getDiagnosis, getHistory, getWorkers, listDestinations } from "./api.js";
import { el } from "./dom.js";
import { createHistoryCharts } from "./history.js";
import { reportMissingKey } from "./problems.js";
import { createTiles } from "./tiles.js";
import { createTroublePanel, TROUBLE_STATES } from "./trouble.js";
import { createVerdict } from "./verdict.js";
import { createFirstSteps } from "./first-steps.js";
import { createWorkersPanel } from "./workers.js";

const SHOWN_MAX = 8;
// The server's checks of itself are expensive.
const DIAGNOSIS_MS = 60000;

/** @param {import("./router.js").Route} route @returns {import("./app.js").View} */
export function openOverview(route) {
  const verdict = createVerdict();
  const tiles = createTiles();
  const firstSteps = createFirstSteps();
  const charts = createHistoryCharts(route.query.get("range"), refreshHistory);
  const trouble = createTroublePanel();
  const workers = createWorkersPanel();
  const root = el("div", { class: "overview" },
    el("h1", { class: "sr-only" }, "Overview"),
    verdict.root, tiles.root, firstSteps.root, charts.root,
    el("div", { class: "columns" }, trouble.root, workers.root));
  let diagnosedAt = -DIAGNOSIS_MS;
  let isOpen = true;

  /** Loads one part. A part that fails stays as it is: the banner of the page tells why. */
  async function load(request, show) {
    try {
      const response = await request;
      if (isOpen) show(response);
    } catch (error) {
      reportMissingKey(error);
    }
  }

  function refreshHistory() {
    const range = charts.range();
    return load(getHistory(range), (history) => { if (range === charts.range()) charts.show(history); });
  }

  async function loadTrouble() {
    const pages = await Promise.all(TROUBLE_STATES.map((state) => listDestinations(state, SHOWN_MAX)));
    return pages.flatMap((page) => page.destinations);
  }

  function refresh() {
    if (performance.now() - diagnosedAt > DIAGNOSIS_MS) {
      diagnosedAt = performance.now();
      load(getDiagnosis(), (diagnosis) => verdict.setFindings(diagnosis?.findings ?? []));
    }
    return Promise.all([
      refreshHistory(),
      load(getWorkers(), (response) => {
        workers.show(response?.workers ?? null);
        verdict.setWorkers(response?.workers ?? null);
      }),
      load(loadTrouble(), (destinations) => {
        trouble.show(destinations.slice(0, SHOWN_MAX));
        verdict.setTrouble(destinations);
      }),
    ]);
  }

  return {
    title: "Overview",
    root,
    refresh,
    onOverview(overview) {
      tiles.show(overview);
      verdict.setOverview(overview);
      firstSteps.show(overview);
      charts.setIdle(firstSteps.isShown());
    },
    onTick: tiles.tick,
    close() {
      isOpen = false;
      charts.close();
    },
  };
}
