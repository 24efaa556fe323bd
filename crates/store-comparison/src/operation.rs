//! Operations as plain data. What they act on is named by its place among what a sequence has brought about so far,
//! so that a sequence still means something when a part of it is left out.

use std::time::Duration;

use posthaste_domain::{DeliveryStatus, ErrorClass, Outcome};
use posthaste_store::CircuitState;

/// One operation, and the handle that it goes through.
#[derive(Debug, Clone)]
pub(crate) struct Step {
    pub(crate) handle: Handle,
    pub(crate) operation: Operation,
}

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

#[derive(Debug, Clone)]
pub(crate) enum Operation {
    Enqueue(Vec<Request>),
    Claim(Claim),
    ClaimAgain { claim: Nth, limit: usize },
    Advance(Duration),
    Renew { leases: Vec<Granted>, lease: Duration },
    Settle { worker: Worker, attempts: Vec<Attempt> },
    Release { leases: Vec<Granted> },
    Requeue { event: Event, actor: Actor },
    Cancel { event: Event, actor: Actor, reason: Option<&'static str> },
    ReportCircuits(Vec<Report>),
    Maintain { keep: Option<Duration>, rows_max: usize },
    DeadLetters(Paged),
    Events { status: Option<DeliveryStatus>, destination: Option<Destination>, paged: Paged },
    Event(Event),
    Destination(Destination),
    Notices { after: Option<Nth>, limit: usize },
}

/// The latest is zero; where there are fewer, counting starts over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Nth(pub(crate) usize);

impl Nth {
    pub(crate) fn of<T>(self, things: &[T]) -> Option<&T> {
        let last = things.len().checked_sub(1)?;
        things.get(last - self.0 % things.len())
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) events: Vec<NewEvent>,
    pub(crate) key: Option<Key>,
}

#[derive(Debug, Clone)]
pub(crate) struct NewEvent {
    pub(crate) destination: Destination,
    /// One of a few ids of the producer's choice, so that they are taken now and then.
    pub(crate) id: Option<u8>,
    pub(crate) max_attempts: u32,
    /// With every field that may be left out, and bytes that are no text.
    pub(crate) in_full: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Key {
    pub(crate) name: u8,
    pub(crate) body: u8,
    pub(crate) keep: Duration,
}

#[derive(Debug, Clone)]
pub(crate) struct Claim {
    pub(crate) owner: Worker,
    pub(crate) limit: usize,
    pub(crate) retries_max: usize,
    pub(crate) per_destination: usize,
    pub(crate) free_slots: Vec<(Destination, usize)>,
    pub(crate) lease: Duration,
    pub(crate) abandon_after: u32,
}

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

#[derive(Debug, Clone, Copy)]
pub(crate) enum Destination {
    A,
    B,
    C,
    /// No event goes there.
    Unknown,
}

impl Destination {
    pub(crate) const fn url(self) -> &'static str {
        match self {
            Self::A => "https://a.example/hook",
            Self::B => "https://b.example/hook",
            Self::C => "https://c.example:8443/hook?to=c",
            Self::Unknown => "https://unknown.example/",
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Event {
    /// Among those in the dead-letter queue; if there are none, among all.
    Failed(Nth),
    /// Among all that were ever enqueued, also those that retention has removed.
    Any(Nth),
    Unknown,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Granted {
    /// Among those that no outcome was written under; if there are none, among all.
    Open(Nth),
    /// Among all that were ever granted.
    Any(Nth),
}

#[derive(Debug, Clone)]
pub(crate) struct Attempt {
    pub(crate) lease: Granted,
    pub(crate) reply: Reply,
    pub(crate) ended_ago: Duration,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Reply {
    Status(u16),
    AskedToWait(u16, Duration),
    Silence(ErrorClass),
}

impl Reply {
    pub(crate) fn outcome(self) -> Outcome {
        match self {
            Self::Status(status) => Outcome::response(status, None, b""),
            Self::AskedToWait(status, wait) => Outcome::response(status, Some(wait), b" try\nlater \xff"),
            Self::Silence(class) => Outcome::no_response(class, "no answer within 30s"),
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Report {
    pub(crate) worker: Worker,
    pub(crate) destination: Destination,
    pub(crate) state: CircuitState,
    pub(crate) expires_in: Duration,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Paged {
    pub(crate) limit: i64,
    /// From where the last page of such a listing ended, as long as time was not moved since.
    pub(crate) goes_on: bool,
    pub(crate) pages_max: usize,
}
