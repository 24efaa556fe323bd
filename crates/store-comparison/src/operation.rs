//! Operations as plain data. An operation names its events, claims and leases by their position among those that the
//! sequence has created so far, so that a sequence remains meaningful when shrinking removes a part of it.

use std::time::Duration;

use posthaste_domain::{DeliveryStatus, ErrorClass, Outcome};
use posthaste_store::{DestinationState, Pace};

use crate::activity::ActivityCall;
use crate::bulk::BulkCall;
use crate::registry::RegistryOperation;

/// One operation, and the store handle that it is called on.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) handle: Handle,
    pub(crate) operation: Operation,
}

/// One of the two handles to the examined store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handle {
    First,
    Second,
}

impl Handle {
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::First => Self::Second,
            Self::Second => Self::First,
        }
    }
}

/// A call on the store, or an advance of its clock.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "a sequence has at most a few hundred operations")]
pub(crate) enum Operation {
    Enqueue(Vec<RequestSpec>),
    Claim(ClaimSpec),
    /// Sends an earlier claim again, under its id.
    RepeatClaim {
        claim: RecencyIndex,
        limit: usize,
        /// A smaller limit in bytes than that of the first call.
        payload_bytes_max: Option<usize>,
    },
    Advance(Duration),
    Renew {
        leases: Vec<LeaseChoice>,
        lease: Duration,
    },
    Settle {
        worker: Worker,
        attempts: Vec<AttemptSpec>,
    },
    ReadPayload {
        lease: LeaseChoice,
    },
    Release {
        leases: Vec<LeaseChoice>,
    },
    Requeue {
        event: EventChoice,
        actor: Actor,
    },
    Replay {
        event: EventChoice,
        actor: Actor,
    },
    ViewContent {
        event: EventChoice,
        actor: Actor,
        bytes_max: usize,
    },
    Cancel {
        event: EventChoice,
        actor: Actor,
        reason: Option<&'static str>,
    },
    Discard {
        event: EventChoice,
        actor: Actor,
        reason: Option<&'static str>,
    },
    Expire {
        expire_after: Duration,
        rows_max: usize,
    },
    ReportCircuits(Vec<CircuitReportSpec>),
    PauseDestination {
        destination: DestinationChoice,
        actor: Actor,
        duration: Option<Duration>,
        reason: Option<&'static str>,
    },
    ResumeDestination {
        destination: DestinationChoice,
        actor: Actor,
    },
    ProbeDestination {
        destination: DestinationChoice,
        actor: Actor,
    },
    Destinations {
        state: Option<DestinationState>,
        limit: i64,
    },
    Maintain {
        keep: Option<Duration>,
        keep_dead_letters: Option<Duration>,
        rows_max: usize,
    },
    DeadLetters {
        with_cancelled: bool,
        like: Option<Likeness>,
        paging: Paging,
    },
    Events {
        status: Option<DeliveryStatus>,
        destination: Option<DestinationChoice>,
        like: Option<Likeness>,
        paging: Paging,
    },
    Event(EventChoice),
    Destination(DestinationChoice),
    Notices {
        after: Option<RecencyIndex>,
        limit: usize,
    },
    Registry(RegistryOperation),
    Bulk(BulkCall),
    Activity(ActivityCall),
}

impl Operation {
    /// Returns whether the operation may change what the registry shows.
    pub(crate) const fn may_change_registry(&self) -> bool {
        matches!(self, Self::Registry(_) | Self::Bulk(_) | Self::Settle { .. } | Self::Maintain { .. })
    }
}

/// Conditions of a search that an event meets, so that the search finds at least that event.
#[derive(Debug, Clone)]
pub(crate) struct Likeness {
    pub(crate) event: RecencyIndex,
    pub(crate) fields: Vec<LikeField>,
}

/// A field of an event that a search can select.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LikeField {
    EventId,
    EventType,
    App,
    FailureKind,
    Error,
    PaymentRequest,
    Session,
    Webhook,
    /// Only a list of dead letters finds times exactly while the clock of the store is moved.
    Since,
    Until,
}

/// An index from the latest item backwards; zero is the latest. It wraps around in a shorter list.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecencyIndex(pub(crate) usize);

impl RecencyIndex {
    /// Returns the item at this index, or `None` from an empty list.
    pub(crate) fn pick<T>(self, items: &[T]) -> Option<&T> {
        let last = items.len().checked_sub(1)?;
        items.get(last - self.0 % items.len())
    }
}

/// An enqueue request.
#[derive(Debug, Clone)]
pub(crate) struct RequestSpec {
    pub(crate) events: Vec<EventSpec>,
    pub(crate) key: Option<KeySpec>,
    /// The name of the producer's API key.
    pub(crate) stored_by: Option<&'static str>,
    /// The worker that wants leases on the new events, and for how long.
    pub(crate) lease: Option<(Worker, Duration)>,
}

/// An event to enqueue.
#[derive(Debug, Clone)]
pub(crate) struct EventSpec {
    pub(crate) destination: Destination,
    /// An id that the producer chose, out of a few, so that ids are sometimes taken already.
    pub(crate) id: Option<u8>,
    pub(crate) max_attempts: u32,
    /// Sets every optional field, and a payload that is not UTF-8.
    pub(crate) all_fields: bool,
    /// Spaces at the end of the payload.
    pub(crate) padding_bytes: usize,
}

/// An idempotency key; requests with the same `body` have the same fingerprint.
#[derive(Debug, Clone)]
pub(crate) struct KeySpec {
    pub(crate) name: u8,
    pub(crate) body: u8,
    pub(crate) keep: Duration,
}

/// A claim request.
#[derive(Debug, Clone)]
pub(crate) struct ClaimSpec {
    pub(crate) owner: Worker,
    pub(crate) limit: usize,
    pub(crate) retries_max: usize,
    pub(crate) per_destination: usize,
    pub(crate) destination_slots: Vec<(DestinationChoice, usize)>,
    pub(crate) per_host: usize,
    /// The paces of hosts, by one of their destinations.
    pub(crate) paces: Vec<(Destination, Pace)>,
    /// The free slots by pace.
    pub(crate) pace_slots: [usize; Pace::ALL.len()],
    /// Destinations that the worker knows to answer.
    pub(crate) known: Vec<DestinationChoice>,
    pub(crate) payload_bytes_max: usize,
    pub(crate) event_payload_bytes_max: Option<usize>,
    pub(crate) inline_payload_bytes_max: usize,
    pub(crate) lease: Duration,
    pub(crate) abandon_after: u32,
}

/// The worker that claims, settles or reports.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Worker {
    A,
    B,
}

impl Worker {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::A => "worker-a",
            Self::B => "worker-b",
        }
    }
}

/// The operator who acts on an event or a destination.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Actor {
    Ann,
    Bob,
}

impl Actor {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Ann => "ann",
            Self::Bob => "bob",
        }
    }
}

/// The destination of an event.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Destination {
    A,
    B,
    C,
    /// A destination that no event has.
    Unknown,
}

impl Destination {
    /// The host of the destination. A and B share one.
    pub(crate) const fn host(self) -> &'static str {
        match self {
            Self::A | Self::B => "https://a.example",
            Self::C => "https://c.example:8443",
            Self::Unknown => "https://unknown.example",
        }
    }

    pub(crate) const fn url(self) -> &'static str {
        match self {
            Self::A => "https://a.example/hook",
            Self::B => "https://a.example/other",
            Self::C => "https://c.example:8443/hook?to=c",
            Self::Unknown => "https://unknown.example/",
        }
    }
}

/// Which destination an operation acts on.
#[derive(Debug, Clone, Copy)]
pub(crate) enum DestinationChoice {
    Url(Destination),
    /// One of all endpoints, including deleted ones; if there are none, the destination of a URL.
    Endpoint(RecencyIndex),
}

/// Which event an operation acts on.
#[derive(Debug, Clone, Copy)]
pub(crate) enum EventChoice {
    /// One of the failed events; if there are none, one of all events.
    Failed(RecencyIndex),
    /// One of all events ever enqueued, including those that retention or an operator has removed.
    Any(RecencyIndex),
    Unknown,
}

/// Which lease an operation acts on.
#[derive(Debug, Clone, Copy)]
pub(crate) enum LeaseChoice {
    /// One of the leases that are not settled; if there are none, one of all leases.
    Unsettled(RecencyIndex),
    /// One of all leases ever granted.
    Any(RecencyIndex),
}

/// An attempt to settle.
#[derive(Debug, Clone)]
pub(crate) struct AttemptSpec {
    pub(crate) lease: LeaseChoice,
    pub(crate) reply: ReceiverReply,
    pub(crate) ended_ago: Duration,
}

/// How a receiver reacted to an attempt.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ReceiverReply {
    Status(u16),
    RetryAfter(u16, Duration),
    NoResponse(ErrorClass),
}

impl ReceiverReply {
    pub(crate) fn outcome(self) -> Outcome {
        match self {
            Self::Status(status) => Outcome::response(status, None, b""),
            Self::RetryAfter(status, wait) => Outcome::response(status, Some(wait), b" try\nlater \xff"),
            Self::NoResponse(class) => Outcome::no_response(class, "no answer within 30s"),
        }
    }
}

/// A worker's report on a circuit.
#[derive(Debug, Clone)]
pub(crate) struct CircuitReportSpec {
    pub(crate) worker: Worker,
    pub(crate) destination: DestinationChoice,
    /// Whether the circuit is open.
    pub(crate) is_open: bool,
    pub(crate) open_for: Duration,
    pub(crate) next_probe_in: Duration,
    pub(crate) expires_in: Duration,
}

/// Which pages of a listing an operation reads.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Paging {
    pub(crate) limit: i64,
    /// Starts after the last page that was read of the same listing, unless time was advanced since.
    pub(crate) continues: bool,
    pub(crate) pages_max: usize,
}
