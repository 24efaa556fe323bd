//! The rules of webhook delivery, as values and pure functions.
//!
//! Nothing here reads a clock, draws a random number or touches the network: time comes in as durations and
//! [`Timestamp`]s, chance as a [`Roll`]. The modules follow an event through its life:
//!
//! ```text
//! NewEvent ─► Lease ─► Outcome ─► decide ─► Transition ─► Notice
//!  accepted   granted   observed   (pure)    to be written  broadcast
//! ```
//!
//! Beside the flow stand the rules that protect a receiver, [`RetryPolicy`] and [`Breaker`], the
//! [`signature`] that every request carries, the [`TraceParent`] that it may carry, and the [`CycleReport`] that counts what
//! happened.
#![forbid(unsafe_code)]

#[macro_use]
mod word;

mod circuit;
mod cycle;
mod decide;
mod destination;
mod ending;
mod event;
mod excerpt;
mod id;
mod lease;
mod notice;
mod outcome;
mod retry;
mod retry_after;
pub mod signature;
mod time;
mod trace;
mod transition;

pub use circuit::{Breaker, BreakerPolicy, BreakerPolicyError, Circuit, Permit};
pub use cycle::CycleReport;
pub use decide::{Decision, Standing, decide};
pub use destination::{DestinationUrl, InvalidDestination};
pub use ending::Ending;
pub use event::{DeliveryStatus, FailureKind, InvalidEvent, NewEvent, NewEventSpec};
pub use excerpt::Excerpt;
pub use id::{ClaimId, DestinationId, EventId, EventKey, InvalidId, LeaseToken, MessageId, WorkerId};
pub use lease::{InvalidLease, Lease, LeaseTerms, Trigger};
pub use notice::{Notice, NoticeKind, TOPIC};
pub use outcome::{Bucket, ErrorClass, Health, Outcome, Verdict};
pub use retry::{
    FAST_RETRY_FLOOR, JITTER_BPS_MAX, RetryPolicy, RetryPolicyError, RetryPolicySpec, Roll, Strategy,
};
pub use retry_after::{RETRY_AFTER_MAX, retry_after};
pub use time::Timestamp;
pub use trace::TraceParent;
pub use transition::{Attempted, Transition};
