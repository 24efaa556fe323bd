//! The rules of webhook delivery, as values and pure functions.
//!
//! This crate reads no clock, generates no random numbers and does no I/O. Callers pass time as durations and
//! [`Timestamp`]s, and randomness as a [`RandomDraw`]. The modules follow an event through its life:
//!
//! ```text
//! NewEvent ─► Lease ─► Outcome ─► decide ─► Transition ─► Notice
//!  accepted   granted   observed   (pure)    to be written  broadcast
//! ```
//!
//! [`RetryPolicy`] and [`CircuitBreaker`] protect receivers. [`signature`] signs every request, [`TraceParent`] is the
//! optional trace context of a request, and [`CycleReport`] holds the counters of one reporting period.
#![forbid(unsafe_code)]

#[macro_use]
mod named_variants;

mod circuit;
mod cycle;
mod decide;
mod destination;
mod event;
mod excerpt;
mod id;
mod last_error;
mod lease;
mod notice;
mod outcome;
mod retry;
mod retry_after;
pub mod signature;
mod terminal_state;
mod time;
mod trace;
mod transition;

pub use circuit::{BreakerPolicy, BreakerPolicyError, Circuit, CircuitBreaker, Permit};
pub use cycle::CycleReport;
pub use decide::{AttemptCounts, Decision, decide};
pub use destination::{DestinationUrl, InvalidDestination};
pub use event::{DeliveryStatus, FailureKind, InvalidEvent, NewEvent, NewEventSpec};
pub use excerpt::Excerpt;
pub use id::{ClaimId, DestinationId, EventId, EventKey, InvalidId, LeaseToken, MessageId, WorkerId};
pub use last_error::last_error_without_excerpt;
pub use lease::{InvalidLease, Lease, LeasePayload, LeaseTerms, NewEventIds, Trigger};
pub use notice::{NOTICE_TOPIC, Notice, NoticeKind};
pub use outcome::{Classification, ErrorClass, Outcome, OutcomeBucket, ReceiverHealth};
pub use retry::{
    FAST_RETRY_FLOOR, JITTER_BPS_MAX, RandomDraw, RetryPolicy, RetryPolicyError, RetryPolicySpec, Strategy,
};
pub use retry_after::{RETRY_AFTER_MAX, parse_retry_after};
pub use terminal_state::{Hold, TerminalState, clean_reason};
pub use time::Timestamp;
pub use trace::TraceParent;
pub use transition::{AttemptResult, Transition};
