// What the operators' API under `/v1/webhook-outbox` responds with, as far as the page uses it: see crates/api/openapi.json.

declare namespace Api {
  interface Caller {
    name: string;
    role: string | null;
    permissions: string[];
  }

  interface Overview {
    pending_count: number;
    pending_ready_count: number;
    retrying_count: number;
    failed_count: number;
    cancelled_count: number;
    delivered_count: number;
    held_count: number;
    held_count_capped: boolean;
    oldest_held_age_seconds: number | null;
    oldest_pending_age_seconds: number | null;
    warnings?: string[];
  }

  interface HistoryPoint {
    at: string;
    delivered_count: number;
    retried_count: number;
    failed_count: number;
    latency_p50_ms: number | null;
    latency_p95_ms: number | null;
    latency_p99_ms: number | null;
    pending_count: number | null;
    dead_letter_count: number | null;
  }

  interface History {
    range: string;
    step_seconds: number;
    points: HistoryPoint[];
  }

  interface Worker {
    worker_id: string;
    version: string;
    started_at: string;
    heartbeat_age_seconds: number;
    in_flight: number;
  }

  interface Finding {
    check: string;
    verdict: string;
    finding: string;
  }

  interface Notice {
    type: string;
    webhook_delivery_id: string;
    event_type: string | null;
    destination_url: string | null;
    attempts: number;
    failure_kind?: string | null;
    reason?: string | null;
    at: string;
  }

  interface Event {
    event_id: string;
    event_type: string;
    destination_id: string;
    destination_url: string;
    webhook_id: string | null;
    delivery_status: string;
    failure_kind: string | null;
    attempts: number;
    max_attempts: number;
    last_error: string | null;
    next_attempt_at: string | null;
    created_at: string;
    updated_at: string;
  }

  interface EventPage {
    events: Event[];
    next_cursor: string | null;
    searched_until?: string | null;
  }

  interface Attempt {
    attempt: number;
    started_at: string;
    duration_ms: number;
    http_status: number | null;
    error_class: string | null;
    excerpt: string | null;
    worker_id: string | null;
    applied: boolean;
  }

  interface EventAudit {
    action: string;
    actor: string;
    at: string;
    reason: string | null;
  }

  interface EventDetail extends Event {
    explanation: string;
    payment_request_id: string | null;
    session_id: string | null;
    stored_by: string | null;
    replay_of: string | null;
    last_attempted_at: string | null;
    delivered_at: string | null;
    history: Attempt[];
    audit: EventAudit[];
  }

  interface EventContent {
    payload: string;
    payload_encoding: string;
    payload_bytes: number;
    truncated: boolean;
    headers: Record<string, string>;
    sensitive_headers: string[];
    headers_error: string | null;
  }

  interface Destination {
    destination_id: string;
    url: string;
    host: string;
    endpoint_id: string | null;
    app_id: string | null;
    state: string;
    disabled: { at: string; reason: string } | null;
    since: string | null;
    reason: string | null;
    next_probe_at: string | null;
    paused_until: string | null;
    failing_since: string | null;
    in_flight: number;
    window: number | null;
    failure_ratio: number | null;
    latency_ms: number | null;
    pending_count: number;
    pending_count_capped: boolean;
    oldest_pending_age_seconds: number | null;
    last_error: string | null;
  }

  interface DestinationPage {
    destinations: Destination[];
    next_cursor: string | null;
  }

  interface Trouble {
    counts: { state: string; count: number; is_capped: boolean }[];
    worst: Destination[];
  }

  interface DestinationAudit {
    action: string;
    actor: string;
    at: string;
    paused_until: string | null;
    reason: string | null;
  }

  interface DestinationDetail extends Destination {
    audit: DestinationAudit[];
  }

  interface BulkCount {
    matched_count: number;
    is_exact?: boolean;
  }

  interface Bulk {
    operation_id: string;
    action: string;
    state: string;
    filter: Record<string, string>;
    matched_count: number;
    is_exact?: boolean;
    examined_count: number;
    done_count: number;
    rate_per_second: number;
    reason: string | null;
    actor: string | null;
    stopped_by: string | null;
    created_at: string;
    updated_at: string;
  }

  interface BulkPage {
    operations: Bulk[];
    next_cursor: string | null;
  }

  /** A recovery of an endpoint, or the sending of what it never got. */
  interface Operation {
    operation_id: string;
    kind: string;
    state: string;
    app_id: string;
    endpoint_id: string;
    since: string;
    until: string;
    rate_per_second: number;
    examined_count: number;
    done_count: number;
    actor: string;
    created_at: string;
    updated_at: string;
  }

  interface OperationPage {
    operations: Operation[];
    next_cursor: string | null;
  }
}
