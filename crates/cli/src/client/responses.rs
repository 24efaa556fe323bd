//! The responses of the API, as far as commands show them. Unknown fields are ignored and most fields are optional, so
//! that the server may be of a newer or older version.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::{ApiClient, ApiPath};
use crate::terminal::escape_line;

/// The response to an enqueued event.
#[derive(Debug, Deserialize)]
pub(crate) struct AcceptedEvent {
    pub(crate) event_id: String,
}

/// The response to an action of an operator. A discarded event has no state.
#[derive(Debug, Deserialize)]
pub(crate) struct ActionResult {
    pub(crate) event_id: String,
    #[serde(default)]
    pub(crate) delivery_status: Option<String>,
    /// Why a requeued event is not sent yet.
    #[serde(default)]
    pub(crate) held: Option<Hold>,
}

/// The payload of an event with the headers of its requests.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct EventContent {
    pub(crate) payload: String,
    pub(crate) payload_encoding: String,
    pub(crate) payload_bytes: u64,
    pub(crate) truncated: bool,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) sensitive_headers: Vec<String>,
}

/// The result of asking for a probe.
#[derive(Debug, Deserialize)]
pub(crate) struct ProbeResult {
    pub(crate) destination_id: String,
    pub(crate) probed: bool,
    pub(crate) reason: Option<String>,
}

/// Why the events of a destination are not sent.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Hold {
    pub(crate) destination_id: String,
    pub(crate) state: String,
    pub(crate) paused_until: Option<String>,
    pub(crate) next_probe_at: Option<String>,
}

/// The number of events in each state.
#[derive(Debug, Deserialize)]
pub(crate) struct Overview {
    pub(crate) pending_count: u64,
    pub(crate) pending_ready_count: u64,
    pub(crate) retrying_count: u64,
    pub(crate) failed_count: u64,
    /// The part of the failed events that an operator cancelled.
    #[serde(default)]
    pub(crate) cancelled_count: u64,
    pub(crate) delivered_count: u64,
    /// Pending events whose destination is paused or has an open circuit.
    #[serde(default)]
    pub(crate) held_count: u64,
    #[serde(default)]
    pub(crate) held_count_capped: bool,
    pub(crate) oldest_pending_age_seconds: Option<f64>,
}

/// The workers of all processes.
#[derive(Debug, Deserialize)]
pub(crate) struct WorkerList {
    pub(crate) workers: Vec<Worker>,
}

/// A worker, as its last report describes it.
#[derive(Debug, Deserialize)]
pub(crate) struct Worker {
    pub(crate) worker_id: String,
    pub(crate) version: String,
    pub(crate) started_at: String,
    pub(crate) heartbeat_age_seconds: u64,
    pub(crate) in_flight: u64,
}

/// One page of a list.
pub(crate) trait ListPage: DeserializeOwned {
    type Item;

    /// The API that serves the list.
    const API: ApiPath = ApiPath::Outbox;
    /// The parameter that continues the list at a cursor.
    const CURSOR_PARAMETER: &'static str = "cursor";

    fn items(&self) -> &[Self::Item];

    fn next_cursor(&self) -> Option<&String>;

    /// Requests what a table shows and the list omits.
    async fn complete(&mut self, _client: &ApiClient) {}
}

impl ListPage for EventPage {
    type Item = Event;

    fn items(&self) -> &[Event] {
        &self.events
    }

    fn next_cursor(&self) -> Option<&String> {
        self.next_cursor.as_ref()
    }
}

impl ListPage for DestinationPage {
    type Item = Destination;

    fn items(&self) -> &[Destination] {
        &self.destinations
    }

    fn next_cursor(&self) -> Option<&String> {
        self.next_cursor.as_ref()
    }
}

/// One page of a list of bulk operations.
#[derive(Debug, Deserialize)]
pub(crate) struct BulkPage {
    pub(crate) operations: Vec<BulkOperation>,
    #[serde(default)]
    pub(crate) next_cursor: Option<String>,
}

impl ListPage for BulkPage {
    type Item = BulkOperation;

    fn items(&self) -> &[BulkOperation] {
        &self.operations
    }

    fn next_cursor(&self) -> Option<&String> {
        self.next_cursor.as_ref()
    }
}

/// A bulk operation on dead letters.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct BulkOperation {
    pub(crate) operation_id: String,
    pub(crate) action: String,
    pub(crate) state: String,
    pub(crate) filter: serde_json::Value,
    pub(crate) matched_count: u64,
    pub(crate) is_exact: bool,
    pub(crate) done_count: u64,
    pub(crate) rate_per_second: u32,
    pub(crate) actor: String,
    pub(crate) stopped_by: Option<String>,
    pub(crate) created_at: Option<String>,
}

/// The number of dead letters that a filter selects.
#[derive(Debug, Deserialize)]
pub(crate) struct BulkCount {
    pub(crate) matched_count: u64,
    pub(crate) is_exact: bool,
}

/// One page of a list of destinations.
#[derive(Debug, Deserialize)]
pub(crate) struct DestinationPage {
    pub(crate) destinations: Vec<Destination>,
    #[serde(default)]
    pub(crate) next_cursor: Option<String>,
}

/// A destination, alone or in a list. Lists omit the audit log; the response to an action also omits the counts.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Destination {
    pub(crate) destination_id: String,
    pub(crate) url: String,
    /// The endpoint and its application; None if events are enqueued to the URL itself.
    pub(crate) endpoint_id: Option<String>,
    pub(crate) app_id: Option<String>,
    pub(crate) state: String,
    pub(crate) disabled: Option<DisabledEndpoint>,
    pub(crate) since: Option<String>,
    pub(crate) reason: Option<String>,
    pub(crate) next_probe_at: Option<String>,
    pub(crate) paused_until: Option<String>,
    pub(crate) failing_since: Option<String>,
    pub(crate) in_flight: u64,
    pub(crate) window: Option<u64>,
    pub(crate) failure_ratio: Option<f64>,
    pub(crate) latency_ms: Option<f64>,
    pub(crate) pending_count: u64,
    pub(crate) pending_count_capped: bool,
    pub(crate) oldest_pending_age_seconds: Option<u64>,
    pub(crate) last_error: Option<String>,
    pub(crate) audit: Vec<AuditEntry>,
}

/// Since when and why an endpoint is disabled.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct DisabledEndpoint {
    pub(crate) at: Option<String>,
    pub(crate) reason: String,
}

/// One page of a list of events.
#[derive(Debug, Deserialize)]
pub(crate) struct EventPage {
    pub(crate) events: Vec<Event>,
    #[serde(default)]
    pub(crate) next_cursor: Option<String>,
}

/// An event, alone or in a list. Lists omit the attempts and the audit log, and the dead-letter queue omits the status.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Event {
    pub(crate) event_id: String,
    pub(crate) event_type: String,
    pub(crate) delivery_status: Option<String>,
    pub(crate) destination_url: String,
    pub(crate) webhook_id: Option<String>,
    pub(crate) payment_request_id: Option<String>,
    pub(crate) session_id: Option<String>,
    pub(crate) stored_by: Option<String>,
    pub(crate) replay_of: Option<String>,
    pub(crate) attempts: u32,
    pub(crate) max_attempts: u32,
    pub(crate) failure_kind: Option<String>,
    pub(crate) last_error: Option<String>,
    pub(crate) created_at: Option<String>,
    pub(crate) updated_at: Option<String>,
    pub(crate) next_attempt_at: Option<String>,
    pub(crate) last_attempted_at: Option<String>,
    pub(crate) delivered_at: Option<String>,
    pub(crate) explanation: Option<String>,
    pub(crate) history: Vec<Attempt>,
    pub(crate) audit: Vec<AuditEntry>,
}

/// One operator action on an event or a destination, from its audit log.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct AuditEntry {
    pub(crate) action: String,
    pub(crate) actor: String,
    pub(crate) at: String,
    pub(crate) reason: Option<String>,
}

/// One delivery attempt of an event.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Attempt {
    pub(crate) attempt: u32,
    pub(crate) started_at: Option<String>,
    pub(crate) duration_ms: Option<f64>,
    pub(crate) http_status: Option<u16>,
    pub(crate) error_class: Option<String>,
    pub(crate) excerpt: Option<String>,
    pub(crate) worker_id: Option<String>,
    /// False if the result arrived too late to change the event.
    pub(crate) applied: Option<bool>,
}

impl Event {
    /// Returns the delivery status. Events of the dead-letter queue have none in the response: they have all failed.
    pub(crate) fn status(&self) -> &str {
        self.delivery_status.as_deref().unwrap_or("failed")
    }

    /// Formats the number of attempts made, and the most that the event may have: `2/6`.
    pub(crate) fn attempt_count(&self) -> String {
        format!("{}/{}", self.attempts, self.max_attempts)
    }
}

/// Parses the code and message of an error response. None if the body is not an error of Posthaste's APIs.
pub(super) fn parse_error(body: &[u8]) -> Option<(String, String)> {
    /// The two forms of an error, and that of a refused value.
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum ErrorBody {
        Outbox { error: ErrorDetails },
        Registry { code: String, detail: String },
        Validation { detail: Vec<Problem> },
    }
    #[derive(Deserialize)]
    struct ErrorDetails {
        code: String,
        message: String,
    }
    #[derive(Deserialize)]
    struct Problem {
        loc: Vec<String>,
        msg: String,
    }
    let (code, message) = match serde_json::from_slice(body).ok()? {
        ErrorBody::Outbox { error } => (error.code, error.message),
        ErrorBody::Registry { code, detail } => (code, detail),
        ErrorBody::Validation { detail } => {
            let lines = detail.iter().map(|problem| format!("{}: {}", problem.loc.join("."), problem.msg));
            ("validation".to_owned(), lines.collect::<Vec<_>>().join("; "))
        }
    };
    Some((escape_line(&code), escape_line(&message)))
}
