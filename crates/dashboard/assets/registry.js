// The API of applications, endpoints and messages, under `/api/v1`. Its caller is an operator's key or the token of one application.

import { createClient, query } from "./http.js";
import { memberText } from "./json-text.js";

/** @typedef {{ limit?: number, cursor?: string | null }} Page */

/** @param {() => string | null} bearer */
export function createRegistry(bearer) {
  const { get, getWithText, send } = createClient("api/v1/", bearer);
  const id = encodeURIComponent;
  const endpointPath = (/** @type {string} */ app, /** @type {string} */ endpoint) => `app/${id(app)}/endpoint/${id(endpoint)}`;

  /** @param {string} path @param {Page} page @param {Record<string, any>} [filter] */
  async function list(path, { limit = 50, cursor = null }, filter = {}) {
    const { data, iterator, done } = await get(`${path}${query({ ...filter, limit, iterator: cursor })}`);
    return { items: data, cursor: done ? null : iterator };
  }

  return {
    /** @param {Page} page @returns {Promise<{ items: Registry.Application[], cursor: string | null }>} */
    listApplications: (page) => list("app", page),
    /** @param {string} app @returns {Promise<Registry.Application>} */
    getApplication: (app) => get(`app/${id(app)}`),
    /** @param {Page} page @returns {Promise<{ items: Registry.EventType[], cursor: string | null }>} */
    listEventTypes: (page) => list("event-type", page),

    /** @param {string} app @param {Page} page @returns {Promise<{ items: Registry.Endpoint[], cursor: string | null }>} */
    listEndpoints: (app, page) => list(`app/${id(app)}/endpoint`, page),
    /** @param {string} app @param {string} endpoint @returns {Promise<Registry.Endpoint>} */
    getEndpoint: (app, endpoint) => get(endpointPath(app, endpoint)),
    /** @param {string} app @param {object} body @param {string} key @returns {Promise<Registry.Endpoint>} */
    createEndpoint: (app, body, key) => send("POST", `app/${id(app)}/endpoint`, body, key),
    /** @param {string} app @param {string} endpoint @param {object} body @returns {Promise<Registry.Endpoint>} */
    changeEndpoint: (app, endpoint, body) => send("PATCH", endpointPath(app, endpoint), body),
    /** @param {string} app @param {string} endpoint */
    deleteEndpoint: (app, endpoint) => send("DELETE", endpointPath(app, endpoint)),
    /** @param {string} app @param {string} endpoint @param {string} since @returns {Promise<Registry.EndpointStats>} */
    getStats: (app, endpoint, since) => get(`${endpointPath(app, endpoint)}/stats${query({ since })}`),

    /** @param {string} app @param {string} endpoint @returns {Promise<{ key: string }>} */
    getSecret: (app, endpoint) => get(`${endpointPath(app, endpoint)}/secret`),
    /** @param {string} app @param {string} endpoint @param {string} key @returns {Promise<{ key: string } | null>} */
    rotateSecret: (app, endpoint, key) => send("POST", `${endpointPath(app, endpoint)}/secret/rotate`, {}, key),
    /** @param {string} app @param {string} endpoint @returns {Promise<Registry.Headers>} */
    getHeaders: (app, endpoint) => get(`${endpointPath(app, endpoint)}/headers`),
    /** Adds, replaces and, with null, removes headers. @param {string} app @param {string} endpoint @param {Record<string, string | null>} headers */
    changeHeaders: (app, endpoint, headers) => send("PATCH", `${endpointPath(app, endpoint)}/headers`, { headers }),

    /** @param {string} app @param {string} endpoint @param {object} example @param {string} key @returns {Promise<Registry.Message>} */
    sendExample: (app, endpoint, example, key) => send("POST", `${endpointPath(app, endpoint)}/send-example`, example, key),
    /** @param {string} app @param {string} message @param {string} endpoint @param {string} key */
    resend: (app, message, endpoint, key) => send("POST", `app/${id(app)}/msg/${id(message)}/endpoint/${id(endpoint)}/resend`, null, key),
    /** @param {string} app @param {string} endpoint @param {string} since @param {string} key @returns {Promise<Registry.StartedTask>} */
    recover: (app, endpoint, since, key) => send("POST", `${endpointPath(app, endpoint)}/recover`, { since }, key),
    /** @param {string} app @param {string} endpoint @param {string} since @param {string} key @returns {Promise<Registry.StartedTask>} */
    replayMissing: (app, endpoint, since, key) => send("POST", `${endpointPath(app, endpoint)}/replay-missing`, { since }, key),
    /** @param {string} task @returns {Promise<Registry.Task>} */
    getTask: (task) => get(`background-task/${id(task)}`),

    /** @param {string} app @param {Page} page @param {Record<string, any>} filter @returns {Promise<{ items: Registry.Message[], cursor: string | null }>} */
    listMessages: (app, page, filter) => list(`app/${id(app)}/msg`, page, { with_content: false, ...filter }),
    /** @param {string} app @param {string} endpoint @param {Page} page @param {Record<string, any>} filter @returns {Promise<{ items: Registry.EndpointMessage[], cursor: string | null }>} */
    listMessagesOfEndpoint: (app, endpoint, page, filter) =>
      list(`${endpointPath(app, endpoint)}/msg`, page, { with_content: false, expanded_statuses: true, ...filter }),
    /** Returns a message with the text of its payload. @param {string} app @param {string} message @returns {Promise<Registry.Message & { payload: string | null }>} */
    async getMessage(app, message) {
      const { text, value } = await getWithText(`app/${id(app)}/msg/${id(message)}`);
      return { ...value, payload: memberText(text, "payload") };
    },
    /** @param {string} app @param {string} message @param {Page} page @returns {Promise<{ items: Registry.MessageEndpoint[], cursor: string | null }>} */
    listEndpointsOfMessage: (app, message, page) => list(`app/${id(app)}/msg/${id(message)}/endpoint`, page, { expanded_statuses: true }),
    /** @param {string} app @param {string} message @param {Page} page @returns {Promise<{ items: Registry.Attempt[], cursor: string | null }>} */
    listAttemptsOfMessage: (app, message, page) => list(`app/${id(app)}/attempt/msg/${id(message)}`, page),
    /** @param {string} app @param {string} endpoint @param {Page} page @param {Record<string, any>} filter @returns {Promise<{ items: Registry.Attempt[], cursor: string | null }>} */
    listAttemptsOfEndpoint: (app, endpoint, page, filter) =>
      list(`app/${id(app)}/attempt/endpoint/${id(endpoint)}`, page, { with_msg: true, with_content: false, ...filter }),
  };
}
