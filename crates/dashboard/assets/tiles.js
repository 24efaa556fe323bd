// The live counts. Each is a link to its list.

import { el, setText } from "./dom.js";
import { UNKNOWN, formatCount, formatRate, formatSeconds } from "./format.js";
import { lastMinute } from "./rate.js";
import { hashOf } from "./router.js";
import { createSparkline } from "./sparkline.js";

const PENDING = hashOf(["events"], { status: "pending" });

/** @type {[string, string, string, (overview: Api.Overview) => number, string][]} name, hint, link, value, colour */
const TILES = [
  ["Pending", "Neither delivered nor failed", PENDING, (o) => o.pending_count, ""],
  ["Ready", "Pending, due and not being sent; opens all pending events", PENDING, (o) => o.pending_ready_count, ""],
  ["Retrying", "Pending with at least one attempt", hashOf(["events"], { status: "retrying" }), (o) => o.retrying_count, "warn"],
  ["Held", "Waiting for paused and disabled destinations and open circuits; opens these destinations", hashOf(["destinations"], { state: "held" }), (o) => o.held_count, "warn"],
  ["Dead letters", "Failed for good, without cancelled ones", hashOf(["dead-letters"]), (o) => o.failed_count - o.cancelled_count, "bad"],
  ["Delivered", "Delivered and not yet removed by retention", hashOf(["events"], { status: "delivered" }), (o) => o.delivered_count, ""],
];

export function createTiles() {
  const values = TILES.map(([, , , , color]) => el("span", { class: `value zero ${color}` }, UNKNOWN));
  const oldest = el("span", { class: "value zero" }, UNKNOWN);
  const rate = el("span", { class: "value zero" }, UNKNOWN);
  const peak = el("span", { class: "muted" });
  const sparkline = createSparkline();
  const tile = (/** @type {string} */ name, /** @type {string} */ hint, /** @type {string} */ href, /** @type {HTMLElement} */ value) => el("a", { class: "tile", href, title: hint }, el("span", { class: "name" }, name), value);
  const root = el("section", { class: "tiles", "aria-label": "Counts", "aria-busy": "true" },
    TILES.map(([name, hint, href], index) => tile(name, hint, href, values[index])),
    tile("Oldest pending", "Age of the oldest pending event", PENDING, oldest),
    el("a", { class: "tile rate", href: "#/live", title: "Deliveries of the last seconds, from the live stream" },
      el("span", { class: "name" }, "Delivered / s ", peak), el("span", { class: "now" }, rate, sparkline.svg)));

  return {
    root,
    isShown: () => root.getAttribute("aria-busy") === "false",
    /** @param {Api.Overview} overview */
    show(overview) {
      root.setAttribute("aria-busy", "false");
      TILES.forEach(([name, , , valueOf], index) => {
        const value = valueOf(overview);
        const more = name === "Held" && overview.held_count_capped ? "+" : "";
        setText(values[index], formatCount(value) + more);
        values[index].classList.toggle("zero", !(value > 0));
      });
      const age = overview.oldest_pending_age_seconds;
      setText(oldest, age === null ? UNKNOWN : shortAge(age));
      oldest.classList.toggle("zero", age === null);
      for (const value of [...values, oldest]) value.classList.toggle("long", value.textContent.length > 7);
    },
    tick() {
      const minute = lastMinute();
      sparkline.draw(minute.delivered, minute.failed);
      setText(rate, minute.rate === null ? UNKNOWN : formatRate(minute.rate));
      rate.classList.toggle("zero", !(Number(minute.rate) > 0));
      setText(peak, !minute.isOpen ? "not live" : minute.peak > 0 ? `peak ${formatCount(minute.peak)}` : "last 60 s");
    },
  };
}

/** "12 min 44 s" as "12m 44s", which fits into a tile. @param {number} seconds */
function shortAge(seconds) {
  return formatSeconds(seconds).replace(/ (d|h|m|s)(in)?/g, "$1");
}
