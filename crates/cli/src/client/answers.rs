//! What the API answers, as far as it is shown. A newer server may say more, an older one less: neither is an error.

use serde::Deserialize;

use crate::terminal::harmless_line;

#[derive(Debug, Deserialize)]
pub(crate) struct Accepted {
    pub(crate) event_id: String,
}

/// The answer to an operator's action.
#[derive(Debug, Deserialize)]
pub(crate) struct SettleResult {
    pub(crate) event_id: String,
    pub(crate) delivery_status: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Overview {
    pub(crate) pending_count: u64,
    pub(crate) pending_ready_count: u64,
    pub(crate) retrying_count: u64,
    pub(crate) failed_count: u64,
    pub(crate) delivered_count: u64,
    pub(crate) oldest_pending_age_seconds: Option<f64>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Page {
    pub(crate) events: Vec<Event>,
    #[serde(default)]
    pub(crate) next_cursor: Option<String>,
}

/// An event, in a list or by itself. Lists of the dead-letter queue leave out what is the same for all of it.
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
    pub(crate) audit: Vec<Action>,
}

/// What an operator did to an event.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Action {
    pub(crate) action: String,
    pub(crate) actor: String,
    pub(crate) at: String,
    pub(crate) reason: Option<String>,
}

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
}

impl Event {
    pub(crate) fn status(&self) -> &str {
        self.delivery_status.as_deref().unwrap_or("failed")
    }

    /// `2/6`: attempts made, of those it may have.
    pub(crate) fn tries(&self) -> String {
        format!("{}/{}", self.attempts, self.max_attempts)
    }
}

/// Code and message of an error, if the body is one of ours.
pub(super) fn refusal(body: &[u8]) -> Option<(String, String)> {
    #[derive(Deserialize)]
    struct Refusal {
        error: Reason,
    }
    #[derive(Deserialize)]
    struct Reason {
        code: String,
        message: String,
    }
    let Refusal { error } = serde_json::from_slice(body).ok()?;
    Some((harmless_line(&error.code), harmless_line(&error.message)))
}
