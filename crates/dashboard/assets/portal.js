// The customers' page: one application, opened by a link with a token. It speaks only the API of that application.

import { initConfirm } from "./confirm.js";
import { byId, el, markOpenView, setText } from "./dom.js";
import { formatExact, updateTimes } from "./format.js";
import { ApiError } from "./http.js";
import { initKeyboard } from "./keyboard.js";
import { openEndpoint } from "./portal-endpoint.js";
import { openEndpointForm } from "./portal-endpoint-form.js";
import { openEndpoints } from "./portal-endpoints.js";
import { openMessage } from "./portal-message.js";
import { openMessages } from "./portal-messages.js";
import { app, endIfRefused, expiresAt, initSession, isExpired, may, registry, startSession } from "./portal-session.js";
import { currentRoute, hashOf, navigate } from "./router.js";
import { initTheme } from "./theme.js";
import { takeToken } from "./token.js";
import { forgetViews, showView } from "./view-history.js";

/** @typedef {import("./router.js").Route} Route */

const POLL_MS = 4000;
const CHORDS = { e: "#/", m: "#/messages" };

/** @type {Record<string, (route: Route) => View>} */
const VIEWS = {
  overview: openEndpoints,
  endpoints: (route) => (route.id === null ? openEndpoints() : openEndpoint(route)),
  new: openEndpointForm,
  edit: openEndpointForm,
  messages: (route) => (route.id === null ? openMessages(route) : openMessage(route)),
};
/** What a link that does not work says. @type {Record<import("./portal-session.js").Ending, [string, string]>} */
const ENDINGS = {
  missing: ["Open this page from your provider's site", "The link that opens it has a key of its own. This tab has none, because it was reloaded or opened by hand: go back to the site that gave you the link."],
  malformed: ["This link is incomplete", "A part of it is missing. Open it again from the site that gave it to you."],
  expired: ["This link has expired", "Open the page again from the site that gave you the link: it makes a new one."],
  refused: ["This link is not valid", "The server does not accept it. Open the page again from the site that gave you the link."],
  gone: ["This account no longer has webhooks", "The application that this link opens does not exist any more."],
  forbidden: ["This link does not let you look at endpoints", "Ask the site that gave you the link for one that does."],
};

/** @type {View | null} */
let view = null;
let hasEnded = false;
let opened = 0;

function openView() {
  if (takeToken()) return start();
  if (hasEnded) return;
  const route = currentRoute();
  if (!Object.hasOwn(VIEWS, route.view)) return navigate("#/");
  view = showView(view, () => VIEWS[route.view](route));
  document.title = `${view.title} · ${byId("app-name").textContent}`;
  markOpenView(route.view === "messages" ? "messages" : "endpoints");
  view.refresh();
}

/** Shows why there is nothing to see. @param {import("./portal-session.js").Ending} ending */
function end(ending) {
  hasEnded = true;
  leave();
  for (const dialog of document.querySelectorAll("dialog")) dialog.close();
  const [title, text] = ENDINGS[ending];
  document.title = title;
  byId("portal-head").hidden = true;
  byId("view").replaceChildren(el("section", { class: "panel ending", "data-ending": ending }, el("h1", {}, title), el("p", {}, text)));
}

/** Leaves the portal of a link. */
function leave() {
  view?.close?.();
  view = null;
  forgetViews();
}

async function start() {
  leave();
  opened += 1;
  const mine = opened;
  hasEnded = false;
  const ending = startSession() ?? (may("read") ? null : "forbidden");
  if (ending !== null) return end(ending);
  byId("portal-head").hidden = false;
  byId("nav-messages").hidden = byId("find").hidden = !may("read_messages");
  setText(byId("expiry"), expiresAt() === null ? "" : `This link works until ${formatExact(expiresAt()?.toISOString())}`);
  openView();
  try {
    const { name } = await registry.getApplication(app());
    if (mine !== opened || hasEnded) return;
    setText(byId("app-name"), name);
    if (view) document.title = `${view.title} · ${name}`;
  } catch (error) {
    if (mine !== opened || hasEnded) return;
    if (error instanceof ApiError && error.status === 404) end("gone");
    endIfRefused(error);
  }
}

/** @param {any} error */
function describe(error) {
  endIfRefused(error);
  return error instanceof ApiError && error.status === 403 ? "Your link does not permit this." : String(error);
}

function refresh() {
  view?.refresh();
}

initTheme();
initSession(end);
initConfirm(refresh, describe);
initKeyboard({ chords: CHORDS, refresh, viewKey: () => false });
byId("find").addEventListener("submit", (/** @type {SubmitEvent} */ submit) => {
  submit.preventDefault();
  const text = byId("find-id").value.trim();
  if (text !== "") navigate(hashOf([text.startsWith("ep_") ? "endpoints" : "messages", text]));
  byId("find-id").blur();
});
byId("skip").addEventListener("click", (/** @type {MouseEvent} */ click) => {
  click.preventDefault();
  byId("view").focus();
});
window.addEventListener("hashchange", openView);
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
start();
setInterval(() => { if (!document.hidden && view) (view.poll ?? view.refresh)(); }, POLL_MS);
setInterval(() => {
  if (!hasEnded && isExpired()) end("expired");
  if (document.hidden) return;
  updateTimes();
  view?.onTick?.();
}, 1000);
