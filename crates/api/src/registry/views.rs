//! Resources of the registry as JSON bodies.

mod application;
mod attempt;
mod endpoint;
mod event_type;
mod message;
mod operation;

pub(super) use application::{ApplicationIn, ApplicationOut, ApplicationPatch};
pub(super) use attempt::AttemptOut;
pub(super) use endpoint::{
    EndpointIn, EndpointOut, EndpointPatch, EndpointStatsOut, MessageEndpointOut, SecretKind,
};
pub(super) use event_type::{EventTypeIn, EventTypeOut, EventTypePatch, EventTypePut};
pub(super) use message::{EndpointMessageOut, ExampleIn, MessageIn, MessageOut};
pub(super) use operation::{OperationOut, PeriodIn, StartedOperationOut};
