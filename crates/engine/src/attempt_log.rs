//! The log lines of one attempt, and of the circuit that it opened or closed.

use std::time::Duration;

use posthaste_domain::{Decision, ErrorClass, Lease, Transition, WorkerId};
use posthaste_store::SettleResult;

use crate::circuits::CircuitChange;

/// Logs an attempt as one line with all of its facts.
///
/// A failure that will be retried and a dead letter are logged at info, so that the log of a service shows the interval
/// of every retry. Other attempts are logged at debug. The line contains neither the URL of the destination, whose path
/// is often a secret, nor a part of the payload or of the response.
pub(crate) fn log_attempt(
    worker_id: &WorkerId,
    lease: &Lease,
    transition: &Transition,
    settled: Option<SettleResult>,
) {
    let written = settled.is_some_and(SettleResult::is_written);
    // A macro, because the level and the message of a log line are constants.
    macro_rules! log {
        ($level:ident, $message:literal) => {
            tracing::$level!(
                event_id = %transition.event_id(),
                event_type = lease.event_type,
                destination_id = lease.destination_id.0,
                %worker_id,
                attempt = transition.attempt(),
                outcome = transition.label(),
                bucket = transition.outcome().bucket().as_str(),
                http_status = transition.outcome().http_status(),
                error_class = transition.outcome().error_class().map(ErrorClass::as_str),
                lag_ms = millis(lease.overdue),
                duration_ms = millis(transition.duration()),
                retry_after_ms = transition.retry_after().map(millis),
                written,
                $message
            )
        };
    }
    match transition.decision() {
        Decision::Retry { .. } if written => log!(info, "attempt failed; retry scheduled"),
        Decision::Failed(_) if written => log!(info, "attempt failed; event dead-lettered"),
        Decision::Delivered | Decision::Retry { .. } | Decision::Failed(_) => log!(debug, "attempt"),
    }
}

/// Logs a circuit that an attempt has opened or closed. The line names the destination by its id and host, because the rest
/// of its URL is often a secret.
pub(crate) fn log_circuit(worker_id: &WorkerId, lease: &Lease, change: CircuitChange) {
    let destination_id = lease.destination_id.0;
    match change {
        CircuitChange::None | CircuitChange::AllowsProbe => {}
        CircuitChange::Opened { failures, next_probe_in } => tracing::warn!(
            destination_id,
            host = lease.destination_url.host(),
            %worker_id,
            failures,
            next_probe_ms = millis(next_probe_in),
            "circuit opened: events of this destination are held until a probe succeeds"
        ),
        CircuitChange::Closed { open_for } => tracing::info!(
            destination_id,
            host = lease.destination_url.host(),
            %worker_id,
            open_ms = millis(open_for),
            "circuit closed: the receiver has recovered"
        ),
    }
}

/// Milliseconds as `u64`, because `tracing` formats a `u128` as text.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
