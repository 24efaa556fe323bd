// The latest notices, newest first. Thousands may arrive in a second; a few times a second the newest are drawn.

import { byId, arrange, el, eventLink, setText } from "./dom.js";
import { count, moment } from "./format.js";

const KEPT = 20;
const DRAW_MS = 400;
const WORDS = { WebhookDeliveredEvent: ["delivered", "ok"], WebhookDLQEvent: ["failed", "bad"] };

let latest = [];
let arrived = 0;
let drawn = 0;
const rows = new WeakMap();
const list = byId("notices");

export function addNotice(notice) {
  latest.unshift(notice);
  if (latest.length > KEPT * 2) latest.length = KEPT;
  arrived += 1;
}

/** Nothing moves under a pointer or a focus. */
function draw() {
  const waiting = arrived - drawn;
  const held = list.matches(":hover, :focus-within");
  setText(byId("held"), held && waiting > 0 ? `${count(waiting)} more` : "newest first");
  if (held || waiting === 0) return;
  drawn = arrived;
  byId("no-notices").hidden = true;
  arrange(list, latest.slice(0, KEPT).map(rowOf));
}

function rowOf(notice) {
  let row = rows.get(notice);
  if (!row) {
    row = makeRow(notice);
    rows.set(notice, row);
  }
  return row;
}

function makeRow(notice) {
  const [word, tone] = WORDS[notice.type] ?? [String(notice.type), ""];
  const again = notice.attempts > 1 ? `×${count(notice.attempts)}` : "";
  return el("li", {},
    el("span", { class: `word ${tone}` }, word),
    eventLink(notice.webhook_delivery_id),
    el("span", { class: "muted", title: again && `${count(notice.attempts)} attempts` }, again),
    moment(notice.at));
}

setInterval(draw, DRAW_MS);
