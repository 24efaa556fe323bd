//! What a receiver does on a connection, step by step, and what must come of it.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use posthaste_domain::{ErrorClass, Outcome};

use crate::stage::certificates::Handshake;

/// One thing that a receiver does. After the last one it lets go of the connection.
pub(crate) enum Step {
    /// Takes one request, head and body.
    Read,
    /// Takes the first bytes that come.
    ReadSome,
    /// Takes the head of a request and leaves its body where it is.
    ReadHead,
    Write(Vec<u8>),
    /// Onto the socket, past TLS.
    WriteBeneathTls(Vec<u8>),
    /// One byte every 150 ms.
    Drip(Vec<u8>),
    /// The same bytes again and again, until the sender has had enough.
    Flood(Vec<u8>),
    /// Does nothing until the test says so.
    Wait,
    /// Answers every further request as it should.
    Serve,
    /// Takes whatever comes and says nothing.
    Silence,
    /// Takes nothing and says nothing.
    Freeze,
    /// Ends the connection by the rules, and waits until the sender does so too.
    Close,
    /// Ends the connection without TLS's goodbye.
    Cut,
    /// Ends the connection with a TCP reset.
    Reset,
}

pub(crate) fn write(bytes: impl AsRef<[u8]>) -> Step {
    Step::Write(bytes.as_ref().to_vec())
}

pub(crate) fn drip(bytes: impl AsRef<[u8]>) -> Step {
    Step::Drip(bytes.as_ref().to_vec())
}

/// Many copies go into one write: a flood must not trickle.
pub(crate) fn flood(bytes: impl AsRef<[u8]>) -> Step {
    let bytes = bytes.as_ref();
    Step::Flood(bytes.repeat(8_192 / bytes.len() + 1))
}

/// How a receiver is reached, and what its script is spoken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    /// `http://`, on the bare socket.
    Plain,
    /// `https://`, after this handshake.
    Tls(Handshake),
    /// `https://`, on the bare socket: the script takes the place of TLS.
    InPlaceOfTls,
}

/// How an attempt must end.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ending {
    Status(u16),
    Class(ErrorClass),
    /// The first of two events decides, and both orders are right.
    Either(&'static Ending, &'static Ending),
}

pub(crate) const CONNECT: Ending = Ending::Class(ErrorClass::Connect);
pub(crate) const DELIVERED: Ending = Ending::Status(200);
pub(crate) const TIMEOUT: Ending = Ending::Class(ErrorClass::Timeout);
pub(crate) const RESET: Ending = Ending::Class(ErrorClass::Reset);
pub(crate) const BROKEN: Ending = Ending::Class(ErrorClass::BrokenResponse);
pub(crate) const TLS: Ending = Ending::Class(ErrorClass::Tls);
pub(crate) const CERTIFICATE: Ending = Ending::Class(ErrorClass::Certificate);

impl Ending {
    pub(crate) fn fits(self, outcome: &Outcome) -> bool {
        match self {
            Self::Status(status) => outcome.http_status() == Some(status),
            Self::Class(class) => outcome.error_class() == Some(class),
            Self::Either(one, other) => one.fits(outcome) || other.fits(outcome),
        }
    }

    fn is_timeout(self) -> bool {
        matches!(self, Self::Class(ErrorClass::Timeout))
    }
}

/// For attempts that must end by themselves: noise on the machine is no timeout.
pub(crate) const AMPLE: Duration = Duration::from_secs(5);
/// For attempts that only their deadline ends.
const SHORT: Duration = Duration::from_millis(1_500);
/// The payload of attempts to which its size does not matter.
pub(crate) const SMALL_BYTES: usize = 64;

/// One behaviour of a receiver, and how an attempt at it must end.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) over: Transport,
    pub(crate) steps: Arc<[Step]>,
    pub(crate) ends: Ending,
    pub(crate) deadline: Duration,
    /// How many request heads the receiver sees.
    pub(crate) requests: RangeInclusive<usize>,
    pub(crate) payload_bytes: usize,
}

pub(crate) fn case<const N: usize>(
    name: &'static str,
    over: Transport,
    steps: [Step; N],
    ends: Ending,
) -> Case {
    let deadline = if ends.is_timeout() { SHORT } else { AMPLE };
    Case { name, over, steps: Arc::new(steps), ends, deadline, requests: 1..=1, payload_bytes: SMALL_BYTES }
}

impl Case {
    /// The status is known early, and yet the response lasts as long as it may.
    pub(crate) fn until_the_deadline(self) -> Self {
        Self { deadline: SHORT, ..self }
    }

    /// The receiver never comes to see a request.
    pub(crate) fn unread(self) -> Self {
        Self { requests: 0..=0, ..self }
    }

    /// Whether the receiver still reads the request is a race.
    pub(crate) fn perhaps_read(self) -> Self {
        Self { requests: 0..=1, ..self }
    }

    pub(crate) fn with_payload(self, payload_bytes: usize) -> Self {
        Self { payload_bytes, ..self }
    }

    pub(crate) fn floods(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Flood(_)))
    }
}
