//! The registry: applications with their endpoints, event types and messages, and what callers of the API need of them.
//!
//! A store gives access to one small trait per resource, with [`Store::applications`](crate::Store::applications) and its
//! siblings. A layer that concerns one resource overrides that accessor only.
//!
//! - **Scoped.** Calls on the resources of an application name the application and its organisation ([`AppScope`]). A resource
//!   of another tenant does not exist for the caller.
//! - **Answered once.** A call that an HTTP client may repeat takes an [`AnswerSlot`]: the store keeps the answer in the
//!   transaction of the change.
//! - **Sealed.** A store sees secrets and custom headers only as [`SealedValue`](posthaste_domain::seal::SealedValue)s.

mod answer;
mod application;
mod attempt;
mod endpoint;
mod event_type;
mod keys;
mod list;
mod message;
mod operation;

pub use answer::{Answer, AnswerKey, AnswerSlot, Answers, KeptAnswer};
pub use application::{AppScope, Application, Applications, Created, IfTaken};
pub use attempt::{AttemptFilter, AttemptRecord, AttemptsOf};
pub use endpoint::{DELETE_CANCELS_MAX, DisabledEndpoint, Endpoint, EndpointStats, Endpoints};
pub use event_type::{EventType, EventTypes};
pub use keys::{
    DestinationKey, DestinationProfile, InvalidKeyGrace, KeyGrace, NewKey, NewSecrets, Reseal, RotateKey,
};
pub use list::{InvalidListLimit, List, ListFrom, ListLimit, ListRequest};
pub use message::{
    EndpointMessage, MessageContent, MessageDestination, MessageFilter, MessageView, Messages, Publication,
    PublishRequest,
};
pub use operation::{
    Advance, InvalidRange, NewOperation, Operation, OperationKind, OperationState, Operations, PastRange,
};
