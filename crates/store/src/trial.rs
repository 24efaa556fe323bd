//! The parts of a trial write, for adapters that implement [`Store::check_writes`](crate::Store::check_writes).

use std::sync::Arc;
use std::time::Duration;

use posthaste_domain::{
    AttemptResult, ClaimId, Lease, NewEvent, NewEventSpec, Outcome, RandomDraw, RetryPolicy, Transition,
    WorkerId,
};

use crate::{ClaimRequest, FixedSlots, PaceSlots, Settlement};

/// A destination that no resolver finds, and that no producer uses.
const URL: &str = "https://trial-write.invalid/";

/// Returns the name under which trial writes are made.
pub fn worker() -> WorkerId {
    WorkerId::new("trial-write").expect("visible ASCII")
}

/// Returns an event with a payload of this size.
pub fn event(payload_bytes: usize) -> NewEvent {
    let spec = NewEventSpec {
        destination_url: URL.to_owned(),
        event_type: "trial".to_owned(),
        payload: format!("\"{}\"", "x".repeat(payload_bytes.saturating_sub(2))).into(),
        ..NewEventSpec::default()
    };
    NewEvent::accept(spec, payload_bytes.max(2), 1).expect("a valid event")
}

/// Returns a claim of one event.
pub fn claim() -> ClaimRequest {
    ClaimRequest {
        id: ClaimId::random([0; 16]),
        owner: worker(),
        lease: Duration::from_secs(1),
        limit: 1,
        retries_max: 0,
        slots: FixedSlots::per_destination(1).share(),
        pace_slots: PaceSlots::UNLIMITED,
        payload_bytes_max: 0,
        event_payload_bytes_max: None,
        inline_payload_bytes_max: 0,
        abandon_after: 1,
        resumed_within: Duration::ZERO,
    }
}

/// Returns the settlement of a delivery under this lease.
pub fn settlement(lease: &Lease) -> Settlement {
    let result = AttemptResult { outcome: Outcome::response(200, None, b""), duration: Duration::ZERO };
    let transition = Transition::from_attempt(lease, result, &RetryPolicy::default(), RandomDraw(0));
    Settlement { transition: Arc::new(transition), ended_ago: Duration::ZERO }
}
