// The signing secret of an endpoint: hidden until the user asks for it.

import { copyButton } from "./copy.js";
import { button, el, panel, setError, setText } from "./dom.js";
import { actions, app, endIfRefused, may, registry } from "./portal-session.js";

const HIDDEN = "•".repeat(24);

/** @param {string} endpointId */
export function createSecretPanel(endpointId) {
  const text = el("code", { class: "secret", "aria-label": "Secret" }, HIDDEN);
  const error = el("p", { class: "error", role: "alert", hidden: true });
  const toggle = button("Show", () => (secret === null ? load() : hide()), { "data-action": "show-secret" });
  const copy = copyButton(() => secret ?? "", "the secret");
  const rotate = button("Rotate…", () => endpoint && actions.rotate(endpoint, rotated), { "data-action": "rotate" });
  const root = panel("Signing secret");
  root.append(el("div", { class: "secret-body" }, el("p", { class: "muted" }, "Your code verifies with it that a request comes from here."), text, error,
    el("p", { class: "actions" }, may("read_secrets") ? [toggle, copy] : null, may("rotate_secrets") ? rotate : null)));
  copy.hidden = true;
  /** @type {Registry.Endpoint | null} */
  let endpoint = null;
  /** @type {string | null} */
  let secret = null;

  /** @param {string | null} value */
  function show(value) {
    secret = value;
    setText(text, secret ?? HIDDEN);
    setText(toggle, secret === null ? "Show" : "Hide");
    copy.hidden = secret === null;
  }

  function hide() {
    show(null);
  }

  async function load() {
    try {
      show((await registry.getSecret(app(), endpointId)).key);
      setError(error, null);
    } catch (problem) {
      endIfRefused(problem);
      setError(error, String(problem));
    }
  }

  /** @param {string | null} value the new secret, if the server tells it */
  function rotated(value) {
    if (may("read_secrets")) show(value);
  }

  return {
    root,
    /** @param {Registry.Endpoint} value */
    setEndpoint(value) {
      endpoint = value;
    },
  };
}
