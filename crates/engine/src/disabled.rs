//! Logs and counts the endpoints that results of this worker have disabled.
//!
//! The store disables an endpoint in the transaction of a result, and keeps an audit row and a notice of it. A result does not
//! say whether it did. So after a result that may have, the worker reads the state of the endpoint: at once after a response
//! that the endpoint is gone, and otherwise at the first failure and when it has been failing long enough.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use posthaste_domain::{
    DestinationId, DisableReason, EndpointDisable, EndpointId, Lease, Timestamp, Transition,
};
use posthaste_store::DestinationStatus;
use tokio::sync::Notify;

use crate::supervise::catch_store_panic;
use crate::worker::Worker;

/// Maximum number of failing endpoints that are remembered. The log leaves out what is beyond.
const ENDPOINTS_MAX: usize = 10_000;
/// Pause after a reading, so that many failing endpoints do not keep the store busy.
const READ_PAUSE: Duration = Duration::from_millis(20);

/// The endpoints that results may have disabled.
#[derive(Debug, Default)]
pub(crate) struct DisabledEndpoints {
    failing: Mutex<BTreeMap<DestinationId, FailingEndpoint>>,
    changed: Notify,
}

/// An endpoint whose last result was a failure.
#[derive(Debug, Clone, Copy)]
struct FailingEndpoint {
    rule: EndpointDisable,
    /// Whether the next reading is due.
    is_due: bool,
    /// When it has been failing long enough, by the store's clock. None before the first reading.
    fails_long_at: Option<Timestamp>,
}

impl DisabledEndpoints {
    /// Takes a result that was written.
    pub(crate) fn record_result(&self, lease: &Lease, transition: &Transition, now: Option<Timestamp>) {
        // An endpoint has keys, so its profile has a version.
        if lease.profile_version == 0 {
            return;
        }
        let mut failing = self.failing();
        let Some(rule) = transition.endpoint_disable() else {
            failing.remove(&lease.destination_id);
            return;
        };
        if failing.len() >= ENDPOINTS_MAX && !failing.contains_key(&lease.destination_id) {
            return;
        }
        let first = FailingEndpoint { rule, is_due: true, fails_long_at: None };
        let endpoint = failing.entry(lease.destination_id).or_insert(first);
        let fails_long = endpoint.fails_long_at.is_some_and(|at| now.is_some_and(|now| now >= at));
        endpoint.rule = rule;
        endpoint.is_due |= fails_long || rule == EndpointDisable::Gone;
        if endpoint.is_due {
            self.changed.notify_one();
        }
    }

    /// Returns an endpoint whose reading is due. It is not due again until another result.
    fn take_due(&self) -> Option<DestinationId> {
        let mut failing = self.failing();
        let (id, endpoint) = failing.iter_mut().find(|(_, endpoint)| endpoint.is_due)?;
        endpoint.is_due = false;
        Some(*id)
    }

    /// Takes the state of an endpoint. Returns why it was disabled, if it was.
    fn record_status(&self, status: &DestinationStatus) -> Option<DisableReason> {
        let mut failing = self.failing();
        if let Some(disabled) = status.disabled {
            failing.remove(&status.id);
            return Some(disabled.reason);
        }
        if let Some(endpoint) = failing.get_mut(&status.id) {
            match (endpoint.rule, status.failing_since) {
                (EndpointDisable::FailingFor(limit), Some(since)) => {
                    endpoint.fails_long_at = Some(since.after(limit));
                }
                _ => drop(failing.remove(&status.id)),
            }
        }
        None
    }

    fn failing(&self) -> MutexGuard<'_, BTreeMap<DestinationId, FailingEndpoint>> {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the endpoints that may have been disabled, and reports those that have been.
pub(crate) async fn run(worker: Arc<Worker>) {
    loop {
        let Some(id) = worker.disabled.take_due() else {
            worker.disabled.changed.notified().await;
            continue;
        };
        // If the reading fails, the log leaves the endpoint out. The store has its audit row and its notice.
        if let Ok(status) = catch_store_panic(worker.ports.store.destination_status(id)).await
            && let Some(reason) = worker.disabled.record_status(&status)
        {
            report_disabled(&worker, &status, reason);
        }
        worker.ports.clock.sleep(READ_PAUSE).await;
    }
}

/// Reports an endpoint that was disabled to the log and the observer. The line has no URL, whose path is often a secret.
fn report_disabled(worker: &Worker, status: &DestinationStatus, reason: DisableReason) {
    let message = match reason {
        // An operator's own action.
        DisableReason::Manual => return,
        DisableReason::Gone => {
            "endpoint disabled: its receiver responded that it is gone; its events are held"
        }
        DisableReason::Failing => "endpoint disabled: it has failed for too long; its events are held",
    };
    tracing::warn!(worker_id = %worker.settings.worker_id, destination_id = status.id.0,
        endpoint_id = %EndpointId(status.id), reason = reason.as_str(), "{message}");
    worker.ports.observer.on_endpoint_disabled(reason);
    // The result may have been a retry, which has no notice of its own.
    worker.publisher.wake();
}
