// Ids of endpoints, and of the events that they get.

/** The id of an endpoint is the number of its destination, in hexadecimal digits. @param {string} endpointId */
export function destinationIdOf(endpointId) {
  const digits = /^ep_([0-9a-f]{1,16})$/.exec(endpointId)?.[1];
  return digits === undefined ? endpointId : String(BigInt(`0x${digits}`));
}

/** Returns the endpoint of an event, or null for an event that was enqueued to a URL. @param {Api.Event} event */
export function endpointOf({ webhook_id: reference, destination_id: destination }) {
  return reference?.startsWith("ep_") && destinationIdOf(reference) === destination ? reference : null;
}

/** The event by which an endpoint gets a message. @param {string} messageId @param {string} endpointId */
export function eventIdOf(messageId, endpointId) {
  return `${messageId}-${destinationIdOf(endpointId)}`;
}
