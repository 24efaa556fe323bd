// The progress of a recovery, until it ends.

import { el } from "./dom.js";
import { formatCount, lookUp, pill } from "./format.js";
import { hasStatus } from "./http.js";
import { createPace } from "./pace.js";
import { endIfRefused, registry } from "./portal-session.js";

/** @type {Record<string, [string, string]>} the word and the colour of a task's status */
const WORDS = { running: ["running", "info"], finished: ["finished", "ok"], failed: ["stopped", "warn"] };

// The longest pause between two looks at the progress.
const PAUSE_MS_MAX = 10000;

export function createTaskLine() {
  const root = el("div", { class: "panel task-line", role: "status", hidden: true });
  /** @type {string | null} */
  let running = null;
  const pace = createPace(PAUSE_MS_MAX);

  async function poll() {
    if (running === null || !pace.isDue()) return;
    const task = running;
    pace.next(false);
    try {
      const { status, data } = await registry.getTask(task);
      if (task !== running) return;
      if (status !== "running") running = null;
      show(status, data);
    } catch (problem) {
      endIfRefused(problem);
      if (task !== running) return;
      // A recovery that does not exist will not appear. After any other error, the next poll tries again.
      if (hasStatus(problem, 404)) running = null;
      root.replaceChildren(pill("unknown", "warn"), el("span", {}, `The progress could not be loaded. ${problem}`));
    }
  }

  /** @param {string} status @param {Registry.Task["data"]} data */
  function show(status, { sent, examined }) {
    const [word, color] = lookUp(WORDS, status, [status, ""]);
    root.replaceChildren(pill(word, color),
      el("span", {}, `${formatCount(sent)} ${sent === 1 ? "message" : "messages"} sent again, ${formatCount(examined)} examined.`));
  }

  return {
    root,
    poll,
    /** @param {string} task */
    follow(task) {
      running = task;
      pace.next(true);
      root.hidden = false;
      root.replaceChildren(pill("running", "info"), el("span", {}, "Starting…"));
    },
  };
}
