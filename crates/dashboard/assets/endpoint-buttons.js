// What an operator may do to an endpoint.

import { registry } from "./api.js";
import { button, el } from "./dom.js";
import { createEndpointActions } from "./endpoint-actions.js";
import { hashOf, navigate } from "./router.js";
import { showSecret } from "./secret-dialog.js";

/** @typedef {{ id: string, url: string, app: string, isDisabled: boolean }} OperatedEndpoint */

/** The buttons of an endpoint in a list: those that are needed most. @param {OperatedEndpoint} endpoint */
export function endpointButtons(endpoint) {
  return [...stateButtons(endpoint), requeueLink(endpoint)];
}

/** The buttons that act on an endpoint itself. @param {OperatedEndpoint} endpoint */
export function stateButtons(endpoint) {
  const { id, url, app, isDisabled } = endpoint;
  const actions = createEndpointActions(registry, () => app);
  const named = (/** @type {string} */ label) => ({ "aria-label": `${label} ${url}` });
  return [
    isDisabled ? button("Enable", () => actions.enable(endpoint), { ...named("Enable"), "data-action": "enable" })
      : button("Disable", () => actions.disable(endpoint), { ...named("Disable"), "data-action": "disable" }),
    isDisabled ? null : el("a", { class: "button", href: hashOf(["send"], { app, endpoint: id }), ...named("Send a test event to"), "data-action": "test" }, "Test…"),
    button("Rotate…", () => actions.rotate(endpoint, showSecret), { ...named("Rotate the secret of"), "data-action": "rotate" }),
  ];
}

/** @param {OperatedEndpoint} endpoint */
function requeueLink({ id, url }) {
  return el("a", { class: "button", href: hashOf(["dead-letters"], { destination: id }), "aria-label": `Requeue all of ${url}`, "data-action": "requeue" }, "Requeue all…");
}

/** The buttons of an endpoint that start an operation. @param {OperatedEndpoint} endpoint */
export function recoveryButtons(endpoint) {
  const actions = createEndpointActions(registry, () => endpoint.app);
  const onStarted = () => navigate("#/bulk");
  return [
    button("Recover failed…", () => actions.recover(endpoint, onStarted), { "data-action": "recover" }),
    button("Send missing…", () => actions.replayMissing(endpoint, onStarted), { "data-action": "replay" }),
  ];
}
