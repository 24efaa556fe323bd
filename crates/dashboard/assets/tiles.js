// The live counts. Each is a link to its list.

import { el, setText } from "./dom.js";
import { UNKNOWN, formatCount, formatRate, formatSeconds } from "./format.js";
import { lastMinute } from "./rate.js";
import { hashOf } from "./router.js";
import { createSparkline } from "./sparkline.js";

const PENDING = hashOf(["events"], { status: "pending" });

/** @type {[string, string, string, (overview: any) => number | null, string][]} name, hint, link, value, colour */
const TILES = [
  ["Pending", "Neither delivered nor failed", PENDING, (o) => o.pending_count, ""],
  ["Ready", "Pending, due and not being sent", PENDING, (o) => o.pending_ready_count, ""],
  ["Retrying", "Pending with at least one attempt", PENDING, (o) => o.retrying_count, "warn"],
  ["Held", "Waiting for paused destinations and open circuits", hashOf(["destinations"]), (o) => o.held_count, "warn"],
  ["Dead letters", "Failed for good, without cancelled ones", hashOf(["dead-letters"]), (o) => o.failed_count - o.cancelled_count, "bad"],
  ["Delivered", "Delivered and not yet removed by retention", hashOf(["events"], { status: "delivered" }), (o) => o.delivered_count, ""],
];

export function createTiles() {
  const values = TILES.map(([, , , , color]) => el("span", { class: `value zero ${color}` }, UNKNOWN));
  const oldest = el("span", { class: "value zero" }, UNKNOWN);
  const rate = el("span", { class: "value zero" }, UNKNOWN);
  const peak = el("span", { class: "muted" });
  const sparkline = createSparkline();
  const tile = (name, hint, href, value) => el("a", { class: "tile", href, title: hint }, el("span", { class: "name" }, name), value);
  const root = el("section", { class: "tiles", "aria-label": "Counts", "aria-busy": "true" },
    TILES.map(([name, hint, href], index) => tile(name, hint, href, values[index])),
    tile("Oldest pending", "Age of the oldest pending event", PENDING, oldest),
    el("a", { class: "tile rate", href: "#/live", title: "Deliveries of the last seconds, from the live stream" },
      el("span", { class: "name" }, "Delivered / s ", peak), el("span", { class: "now" }, rate, sparkline.svg)));

  return {
    root,
    show(overview) {
      root.setAttribute("aria-busy", "false");
      TILES.forEach(([name, , , valueOf], index) => {
        const value = valueOf(overview);
        const more = name === "Held" && overview.held_count_capped ? "+" : "";
        setText(values[index], formatCount(value) + more);
        values[index].classList.toggle("zero", !(value > 0));
      });
      const age = overview.oldest_pending_age_seconds;
      setText(oldest, Number.isFinite(age) ? shortAge(age) : UNKNOWN);
      oldest.classList.toggle("zero", !Number.isFinite(age));
      for (const value of [...values, oldest]) value.classList.toggle("long", value.textContent.length > 7);
    },
    tick() {
      const minute = lastMinute();
      sparkline.draw(minute.delivered, minute.failed);
      if (minute.rate === null) return;
      setText(rate, formatRate(minute.rate));
      rate.classList.toggle("zero", minute.rate === 0);
      setText(peak, minute.peak > 0 ? `peak ${formatCount(minute.peak)}` : "last 60 s");
    },
  };
}

/** "12 min 44 s" as "12m 44s", which fits into a tile. */
function shortAge(seconds) {
  return formatSeconds(seconds).replace(/ (d|h|m|s)(in)?/g, "$1");
}
