// Where a test event goes: to a URL, with a payload of the user, or to an endpoint, with an example of an event type.

import { enqueueEvent, registry } from "./api.js";
import { el, field, select } from "./dom.js";
import { eventIdOf } from "./endpoint-id.js";
import { randomKey } from "./http.js";
import { checkJson, withMember } from "./json-text.js";

const PAYLOAD = '{\n  "message": "Hello from Posthaste"\n}';
const TYPES_MAX = 250;

/**
 * @typedef {object} Target
 * @property {HTMLElement[]} fields
 * @property {() => Promise<void>} load fills the fields; called again after an error
 * @property {() => Promise<string>} send sends a test event and returns its id
 * @property {() => Record<string, string>} query what the address says of the fields
 */

/** @param {URLSearchParams} given @returns {Target} */
export function createUrlTarget(given) {
  const url = el("input", { type: "url", required: true, placeholder: "A receiver, such as that of posthaste listen", value: given.get("url") ?? "http://127.0.0.1:8700/", spellcheck: "false" });
  const type = el("input", { required: true, maxlength: "256", value: given.get("type") ?? "test.event", spellcheck: "false" });
  const attempts = el("input", { type: "number", min: "1", max: "1000", value: "1", inputmode: "numeric" });
  const payload = el("textarea", { rows: "7", spellcheck: "false" });
  payload.value = PAYLOAD;
  return {
    fields: [field("Destination URL", url), field("Event type", type), field("Attempts at most", attempts), field("Payload", payload, "JSON")],
    async load() {},
    async send() {
      const event = { destination_url: url.value.trim(), event_type: type.value, max_attempts: Number(attempts.value) || 1 };
      return (await enqueueEvent(withMember(event, "payload", checked(payload.value)), randomKey())).event_id;
    },
    query: () => ({ url: url.value.trim(), type: type.value }),
  };
}

/** Returns a text that is JSON, as it was typed. @param {string} text */
function checked(text) {
  try {
    checkJson(text);
    return text;
  } catch (problem) {
    throw new Error(`The payload is not JSON: ${problem instanceof Error ? problem.message : problem}`);
  }
}

/** @param {string} app @param {string} endpointId @returns {Target} */
export function createEndpointTarget(app, endpointId) {
  const url = el("input", { readonly: true, value: endpointId });
  const type = select({ id: "example-type" }, [], "");
  const typeField = field("Event type", type);
  /** For a server without event types. */
  const freeType = el("input", { required: true, maxlength: "256", value: "example.event", spellcheck: "false", disabled: true });
  const freeField = field("Event type", freeType);
  freeField.hidden = true;
  let isLoaded = false;
  return {
    fields: [field("Endpoint", url), typeField, freeField],
    async load() {
      if (isLoaded) return;
      const endpoint = await registry.getEndpoint(app, endpointId);
      const types = endpoint.eventTypes ?? (await registry.listEventTypes({ limit: TYPES_MAX })).items.map(({ name }) => name);
      url.value = endpoint.url;
      type.replaceChildren(...types.map((name) => el("option", { value: name }, name)));
      typeField.hidden = types.length === 0;
      freeField.hidden = types.length > 0;
      freeType.disabled = types.length > 0;
      isLoaded = true;
    },
    async send() {
      const eventType = freeType.disabled ? type.value : freeType.value.trim();
      const { id } = await registry.sendExample(app, endpointId, { eventType }, randomKey());
      return eventIdOf(id, endpointId);
    },
    query: () => ({ app, endpoint: endpointId }),
  };
}
