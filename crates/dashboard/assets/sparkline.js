// The small picture of the last minute: deliveries as an area, dead letters as ticks.

import { byId } from "./dom.js";

const WIDTH = 240;
const HEIGHT = 36;
const SECONDS = 60;

export function createSparkline() {
  const namespace = byId("theme").firstElementChild.namespaceURI;
  const svg = document.createElementNS(namespace, "svg");
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  svg.setAttribute("class", "sparkline");
  const [area, line, ticks] = ["area", "line", "ticks"].map((name) => {
    const path = document.createElementNS(namespace, "path");
    path.setAttribute("class", name);
    path.setAttribute("vector-effect", "non-scaling-stroke");
    svg.append(path);
    return path;
  });

  /** @param {number[]} delivered per second, oldest first @param {number[]} failed */
  function draw(delivered, failed) {
    if (delivered.length < 2) {
      for (const path of [area, line, ticks]) path.setAttribute("d", "");
      return;
    }
    const peak = Math.max(1, ...delivered);
    const x = (/** @type {number} */ index) => (WIDTH - ((delivered.length - 1 - index) * WIDTH) / (SECONDS - 1)).toFixed(1);
    const y = (/** @type {number} */ value) => (HEIGHT - 1 - (value / peak) * (HEIGHT - 4)).toFixed(1);
    const points = delivered.map((value, index) => `${x(index)} ${y(value)}`);
    line.setAttribute("d", `M${points.join("L")}`);
    area.setAttribute("d", `M${x(0)} ${HEIGHT}L${points.join("L")}L${WIDTH} ${HEIGHT}Z`);
    ticks.setAttribute("d", failed.map((count, index) => (count > 0 ? `M${x(index)} ${HEIGHT}v-7` : "")).join(""));
  }

  return { svg, draw };
}
