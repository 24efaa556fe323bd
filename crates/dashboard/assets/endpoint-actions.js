// What a customer or an operator does to an endpoint and its messages, each after a confirmation.

import { serverNowMs } from "./clock.js";
import { confirm } from "./confirm.js";
import { el, field, select } from "./dom.js";

const PERIODS = [["3600", "the last hour"], ["86400", "the last day"], ["604800", "the last 7 days"], ["1209600", "the last 14 days"]];
const NAMES_MAX = 1000;

/** @typedef {{ id: string, url: string }} Target the endpoint of an action */

/**
 * @param {ReturnType<typeof import("./registry.js").createRegistry>} registry
 * @param {() => string} app returns the id of the application
 */
export function createEndpointActions(registry, app) {
  return {
    /** @param {Target} endpoint @param {() => void} onDeleted */
    delete: (endpoint, onDeleted) => confirm({
      title: "Delete this endpoint?",
      text: "It gets no more messages, and those that wait for it are cancelled. This cannot be undone.",
      subject: endpoint.url,
      label: "Delete endpoint",
      busyLabel: "Deleting…",
      isDangerous: true,
      perform: () => registry.deleteEndpoint(app(), endpoint.id),
      successText: () => "The endpoint is deleted.",
      onSuccess: onDeleted,
    }),
    /** @param {Target} endpoint */
    disable: (endpoint) => confirm({
      title: "Disable this endpoint?",
      text: "Messages for it are kept, and sent when it is enabled again.",
      subject: endpoint.url,
      label: "Disable",
      busyLabel: "Disabling…",
      isDangerous: true,
      perform: () => registry.changeEndpoint(app(), endpoint.id, { disabled: true }),
      successText: () => "The endpoint is disabled.",
    }),
    /** @param {Target} endpoint */
    enable: (endpoint) => confirm({
      title: "Enable this endpoint?",
      text: "The messages that were kept are sent now.",
      subject: endpoint.url,
      label: "Enable",
      busyLabel: "Enabling…",
      perform: () => registry.changeEndpoint(app(), endpoint.id, { disabled: false }),
      successText: () => "The endpoint is enabled.",
    }),
    /** @param {Target} endpoint @param {(secret: string | null) => void} onRotated */
    rotate: (endpoint, onRotated) => confirm({
      title: "Rotate the signing secret?",
      text: "Requests are signed with a new secret at once, and for a day also with the present one: the receiver has to know the new one within this day.",
      subject: endpoint.url,
      label: "Rotate",
      busyLabel: "Rotating…",
      perform: (key) => registry.rotateSecret(app(), endpoint.id, key),
      successText: () => "The secret is rotated.",
      onSuccess: (response) => onRotated(response?.key ?? null),
      isResultNeeded: true,
    }),
    /** @param {Target} endpoint @param {string} message */
    resend: (endpoint, message) => confirm({
      title: "Send this message again?",
      text: "The endpoint gets the message once more, with the same id.",
      subject: `${message} → ${endpoint.url}`,
      label: "Send again",
      busyLabel: "Sending…",
      perform: (key) => registry.resend(app(), message, endpoint.id, key),
      successText: () => "The message is sent again.",
    }),
    /** @param {Target} endpoint @param {string[]} types @param {(message: Registry.Message) => void} onSent */
    sendExample(endpoint, types, onSent) {
      const names = types.slice(0, NAMES_MAX).map((name) => [name, name]);
      const type = names.length > 0 ? select({ id: "example-type" }, names, names[0][0])
        : el("input", { id: "example-type", value: "example.event", required: true, maxlength: "256", spellcheck: "false" });
      confirm({
        title: "Send an example?",
        text: "The endpoint gets an example of the event type, signed like every message.",
        subject: endpoint.url,
        label: "Send example",
        busyLabel: "Sending…",
        fields: [field("Event type", type)],
        perform: (key) => registry.sendExample(app(), endpoint.id, { eventType: type.value.trim() }, key),
        successText: () => "The example is on its way.",
        onSuccess: onSent,
      });
    },
    /** @param {Target} endpoint @param {(task: string) => void} onStarted */
    recover: (endpoint, onStarted) => start(endpoint, registry.recover, onStarted, {
      title: "Send failed messages again?",
      text: "Every message of the period that failed at this endpoint is sent again, at a limited rate.",
    }),
    /** @param {Target} endpoint @param {(task: string) => void} onStarted */
    replayMissing: (endpoint, onStarted) => start(endpoint, registry.replayMissing, onStarted, {
      title: "Send missing messages?",
      text: "Every message of the period that matches this endpoint and that it never got is sent, such as those from before it was added.",
    }),
  };

  /** @param {Target} endpoint @param {typeof registry.recover} run @param {(task: string) => void} onStarted @param {{ title: string, text: string }} words */
  function start(endpoint, run, onStarted, words) {
    const period = select({}, PERIODS, "86400");
    confirm({
      ...words,
      subject: endpoint.url,
      label: "Start",
      busyLabel: "Starting…",
      fields: [field("Published in", period)],
      // A second less: the period of 14 days must not have passed before the request arrives.
      perform: (key) => run(app(), endpoint.id, new Date(serverNowMs() - (Number(period.value) - 1) * 1000).toISOString(), key),
      successText: () => "The messages are being sent.",
      onSuccess: (task) => onStarted(task.id),
    });
  }
}
