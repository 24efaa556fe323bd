//! Operations on the registry as plain data. Values without ids are those of the domain, because both stores get the same.

use std::time::Duration;

use posthaste_domain::{
    ApplicationChange, Channel, EndpointChange, EventTypeChange, EventTypeName, NewApplication, NewEndpoint,
    NewEventType, NewMessage, OrgId, Throttle,
};
use posthaste_store::{KeyGrace, OperationKind, OperationState, PastRange};

use crate::operation::{Actor, DestinationChoice, RecencyIndex};

/// A call on the registry of the store.
#[derive(Debug, Clone)]
pub(crate) enum RegistryOperation {
    CreateApplication {
        org: Org,
        new: Box<NewApplication>,
        /// Whether an application that has the uid is returned instead of refused.
        returns_existing: bool,
        answer: Option<AnswerSpec>,
    },
    PutApplication {
        app: AppChoice,
        new: Box<NewApplication>,
    },
    ChangeApplication {
        app: AppChoice,
        change: Box<ApplicationChange>,
    },
    DeleteApplication {
        app: AppChoice,
        actor: Actor,
    },
    CreateEventType {
        org: Org,
        new: Box<NewEventType>,
        answer: Option<AnswerSpec>,
    },
    PutEventType {
        org: Org,
        new: Box<NewEventType>,
    },
    ChangeEventType {
        org: Org,
        name: EventTypeName,
        change: Box<EventTypeChange>,
    },
    ExpungeEventType {
        org: Org,
        name: EventTypeName,
    },
    CreateEndpoint {
        app: AppChoice,
        new: Box<NewEndpoint>,
        has_headers: bool,
        answer: Option<AnswerSpec>,
    },
    PutEndpoint {
        endpoint: EndpointChoice,
        new: Box<NewEndpoint>,
        actor: Actor,
    },
    ChangeEndpoint {
        endpoint: EndpointChoice,
        change: Box<EndpointChange>,
        actor: Actor,
    },
    DeleteEndpoint {
        endpoint: EndpointChoice,
        actor: Actor,
    },
    Publish {
        app: AppChoice,
        message: Box<NewMessage>,
        /// An application that the request creates if `app` is a uid that no application has.
        create_app: Option<Box<NewApplication>>,
        only_endpoint: Option<RecencyIndex>,
        stored_by: Option<&'static str>,
        answer: Option<AnswerSpec>,
    },
    ExpungeMessage {
        message: MessageChoice,
        actor: Actor,
    },
    Resend {
        message: MessageChoice,
        /// An endpoint of the message's application.
        endpoint: RecencyIndex,
        actor: Actor,
        answer: Option<AnswerSpec>,
    },
    StartOperation {
        endpoint: EndpointChoice,
        kind: OperationKind,
        range: PastRange,
        rate: Throttle,
        actor: Actor,
        answer: Option<AnswerSpec>,
    },
    AdvanceOperations {
        rows_max: usize,
    },
    StopOperation(RecencyIndex),
    /// Creates the destination of a URL, if there is none.
    FindUrlDestination(&'static str),
    RotateKey {
        destination: DestinationChoice,
        grace: KeyGrace,
        actor: Actor,
        /// Number of rotations, each with another key.
        times: usize,
        /// Whether each call is repeated with the same key.
        is_repeated: bool,
        answer: Option<AnswerSpec>,
    },
    SetHeaders {
        destination: DestinationChoice,
        /// Whether the call names the headers that are stored.
        is_expected: bool,
        has_headers: bool,
    },
    /// Lists sealed values, and replaces the bytes of the listed ones.
    Reseal {
        skip: usize,
        limit: usize,
        /// Whether the call names the bytes that are stored.
        is_current: bool,
    },
    CountEvents {
        endpoint: EndpointChoice,
        since_ago: Option<Duration>,
        until_ago: Option<Duration>,
    },
    List {
        list: ListSpec,
        from: FromSpec,
        limit: i64,
    },
}

/// An organisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Org {
    Default,
    Other,
}

impl Org {
    pub(crate) const ALL: [Self; 2] = [Self::Default, Self::Other];

    pub(crate) fn id(self) -> OrgId {
        match self {
            Self::Default => OrgId::default_org(),
            Self::Other => OrgId::new("org_other").expect("a valid id"),
        }
    }
}

/// Where a call keeps its answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AnswerSpec {
    /// One of a few numbers, so that an answer is sometimes kept already.
    pub(crate) number: u8,
    pub(crate) keep_for: Duration,
}

/// Which application an operation acts on.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AppChoice {
    Live(RecencyIndex),
    /// One of all applications ever created, including deleted ones.
    Any(RecencyIndex),
    /// A live application in the scope of the organisation that does not own it.
    Foreign(RecencyIndex),
    /// The application that has one of a few uids, if there is one.
    Uid(u8),
}

/// Which endpoint an operation acts on.
#[derive(Debug, Clone, Copy)]
pub(crate) enum EndpointChoice {
    Live(RecencyIndex),
    /// A live endpoint by its uid, if it has one.
    LiveByUid(RecencyIndex),
    /// One of all endpoints ever created, including deleted ones.
    Any(RecencyIndex),
    /// A live endpoint in the scope of the latest application, which may be another one.
    OfLatestApp(RecencyIndex),
    /// The endpoint of the latest application that has one of a few uids, if there is one.
    Uid(u8),
}

/// Which message an operation acts on.
#[derive(Debug, Clone, Copy)]
pub(crate) enum MessageChoice {
    /// One of all messages ever published, including removed ones.
    Any(RecencyIndex),
    /// A message by its uid, if it has one.
    ByUid(RecencyIndex),
    /// A message in the scope of the latest application, which may be another one.
    OfLatestApp(RecencyIndex),
}

/// A list of the registry, with its filters. Times are durations before now.
#[derive(Debug, Clone)]
pub(crate) enum ListSpec {
    Applications(Org),
    EventTypes { org: Org, include_archived: bool },
    Endpoints(AppChoice),
    Messages { app: AppChoice, filter: MessageFilterSpec, with_content: bool },
    MessagesOfEndpoint { endpoint: EndpointChoice, filter: MessageFilterSpec, with_content: bool },
    Destinations(MessageChoice),
    AttemptsOfMessage { message: MessageChoice, filter: AttemptFilterSpec },
    AttemptsOfEndpoint { endpoint: EndpointChoice, filter: AttemptFilterSpec },
    Operations(Option<OperationState>),
}

/// Filters of a list of messages.
#[derive(Debug, Clone, Default)]
pub(crate) struct MessageFilterSpec {
    pub(crate) event_type: Option<EventTypeName>,
    pub(crate) channel: Option<Channel>,
    pub(crate) tag: Option<&'static str>,
    pub(crate) before_ago: Option<Duration>,
    pub(crate) after_ago: Option<Duration>,
}

/// Filters of a list of attempts.
#[derive(Debug, Clone, Default)]
pub(crate) struct AttemptFilterSpec {
    pub(crate) endpoint: Option<RecencyIndex>,
    pub(crate) is_success: Option<bool>,
    pub(crate) status_code_class: Option<u16>,
    pub(crate) channel: Option<Channel>,
    pub(crate) event_type: Option<EventTypeName>,
    pub(crate) before_ago: Option<Duration>,
    pub(crate) after_ago: Option<Duration>,
}

/// Which page of a list an operation reads, by the position of a row in the list.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FromSpec {
    Start,
    After(usize),
    Before(usize),
}
