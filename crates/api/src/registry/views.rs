//! Resources of the registry as JSON bodies.

mod application;
mod attempt;
mod endpoint;
mod event_type;
mod message;
mod operation;

use posthaste_domain::{InvalidThrottle, Throttle};

pub(super) use application::{ApplicationIn, ApplicationOut, ApplicationPatch};
pub(super) use attempt::AttemptOut;
pub(super) use endpoint::{
    EndpointIn, EndpointOut, EndpointPatch, EndpointStatsOut, MessageEndpointOut, SecretKind,
};
pub(super) use event_type::{EventTypeIn, EventTypeOut, EventTypePatch, EventTypePut};
pub(super) use message::{EndpointMessageOut, ExampleIn, MessageIn, MessageOut};
pub(super) use operation::{OperationOut, PeriodIn, StartedOperationOut};

/// Refuses a throttle out of range. Both names of the field are checked, also the one that the other overrules.
fn check_throttles(rates: [Option<i64>; 2]) -> Result<(), InvalidThrottle> {
    rates.into_iter().flatten().try_for_each(|rate| Throttle::new(rate).map(drop))
}
