// What the API under `/api/v1` responds with, as far as the pages use it: see crates/api/openapi-registry.json.

declare namespace Registry {
  interface Application {
    id: string;
    uid: string | null;
    name: string;
  }

  interface EventType {
    name: string;
    description: string;
  }

  interface Endpoint {
    id: string;
    uid: string | null;
    url: string;
    description: string;
    disabled: boolean;
    disabledReason: string | null;
    disabledAt: string | null;
    eventTypes: string[] | null;
    channels: string[] | null;
    throttleRate: number | null;
    ordering: string;
    createdAt: string;
    updatedAt: string;
  }

  interface EndpointStats {
    success: number;
    pending: number;
    sending: number;
    fail: number;
  }

  interface Headers {
    headers: Record<string, string>;
    sensitive: string[];
  }

  interface Message {
    id: string;
    eventId: string | null;
    eventType: string;
    payload: unknown;
    channels: string[] | null;
    tags: string[] | null;
    timestamp: string;
  }

  /** A message as one endpoint gets it. */
  interface EndpointMessage extends Message {
    statusText: string;
    nextAttempt: string | null;
  }

  /** An endpoint as it gets one message. */
  interface MessageEndpoint extends Endpoint {
    statusText: string;
    nextAttempt: string | null;
  }

  interface Attempt {
    id: string;
    msgId: string;
    endpointId: string;
    url: string;
    response: string;
    responseStatusCode: number;
    responseDurationMs: number;
    status: number;
    triggerType: number;
    timestamp: string;
    msg?: Message;
  }

  interface StartedTask {
    id: string;
    status: string;
  }

  interface Task extends StartedTask {
    data: { sent: number; examined: number };
  }
}
