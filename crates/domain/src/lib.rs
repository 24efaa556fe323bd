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
//! The registry has [applications](NewApplication) with [endpoints](NewEndpoint); a [`NewMessage`] becomes an event for each
//! endpoint whose [`Subscription`] matches. [`seal`] protects the secrets of endpoints at rest.
//!
//! [`RetryPolicy`] and [`CircuitBreaker`] protect receivers. [`signature`] signs every request, [`TraceParent`] is the
//! optional trace context of a request, and [`CycleReport`] holds the counters of one reporting period.
#![forbid(unsafe_code)]

#[macro_use]
mod named_variants;

mod application;
mod circuit;
mod custom_headers;
mod cycle;
mod decide;
mod destination;
mod endpoint;
mod event;
mod event_type;
mod excerpt;
mod id;
mod last_error;
mod latency;
mod lease;
mod message;
mod metadata;
mod notice;
mod outcome;
mod public_id;
mod retry;
mod retry_after;
pub mod seal;
pub mod signature;
mod subscription;
mod terminal_state;
mod throttle;
mod time;
mod trace;
mod transition;
mod uid;

pub use application::{
    ApplicationChange, ApplicationName, ApplicationSpec, InvalidApplication, NewApplication,
};
pub use circuit::{BreakerPolicy, BreakerPolicyError, Circuit, CircuitBreaker, Permit};
pub use custom_headers::{CustomHeaders, InvalidHeaders};
pub use cycle::CycleReport;
pub use decide::{AttemptCounts, Decision, decide};
pub use destination::{DestinationUrl, InvalidDestination};
pub use endpoint::{
    DeliveryOrder, Description, DisableReason, EndpointChange, EndpointSpec, InvalidEndpoint, NewEndpoint,
};
pub use event::{DeliveryStatus, FailureKind, InvalidEvent, NewEvent, NewEventSpec};
pub use event_type::{EventTypeChange, EventTypeSettings, InvalidEventType, NewEventType};
pub use excerpt::Excerpt;
pub use id::{ClaimId, DestinationId, EventId, EventKey, InvalidId, LeaseToken, MessageId, WorkerId};
pub use last_error::last_error_without_excerpt;
pub use latency::LatencyHistogram;
pub use lease::{InvalidLease, Lease, LeasePayload, LeaseTerms, NewEventIds, Trigger};
pub use message::{DELIVER_IN_MAX, InvalidMessage, MessageSpec, NewMessage};
pub use metadata::{InvalidMetadata, Metadata};
pub use notice::{NOTICE_TOPIC, Notice, NoticeEndpoint, NoticeKind};
pub use outcome::{Classification, ErrorClass, Outcome, OutcomeBucket, ReceiverHealth};
pub use public_id::{ApplicationId, AttemptId, BulkId, EndpointId, OperationId, OrgId};
pub use retry::{
    FAST_RETRY_FLOOR, JITTER_BPS_MAX, RandomDraw, RetryPolicy, RetryPolicyError, RetryPolicySpec, Strategy,
};
pub use retry_after::{RETRY_AFTER_MAX, parse_retry_after};
pub use subscription::{
    Channel, ENDPOINT_CHANNELS_MAX, EventTypeName, InvalidSubscription, MESSAGE_CHANNELS_MAX,
    SUBSCRIBED_TYPES_MAX, Subscription,
};
pub use terminal_state::{Hold, TerminalState, clean_reason};
pub use throttle::{InvalidThrottle, Throttle};
pub use time::Timestamp;
pub use trace::TraceParent;
pub use transition::{AttemptResult, EndpointDisable, Transition};
pub use uid::{ApplicationRef, EndpointRef, InvalidUid, MessageRef, Uid};
