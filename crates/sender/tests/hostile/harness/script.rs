//! Scripts: the steps of a receiver on a connection, and the expected outcome of the attempt.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use posthaste_domain::{ErrorClass, Outcome};

use crate::harness::certificates::Handshake;

/// One step of a receiver. After the last step it drops the connection.
pub(crate) enum Step {
    /// Reads one request, head and body.
    Read,
    /// Reads the first bytes that arrive.
    ReadSome,
    /// Reads the head of a request and leaves its body unread.
    ReadHead,
    /// Writes these bytes.
    Write(Vec<u8>),
    /// Writes these bytes to the TCP socket, bypassing TLS.
    WriteRaw(Vec<u8>),
    /// Writes one byte every 150 ms.
    Drip(Vec<u8>),
    /// Writes the same bytes repeatedly, until the sender closes the connection.
    Flood(Vec<u8>),
    /// Does nothing until the test calls `Receiver::continue_script`.
    Wait,
    /// Responds correctly to every further request.
    Serve,
    /// Reads everything and writes nothing.
    Silence,
    /// Neither reads nor writes.
    Freeze,
    /// Closes the connection properly, and waits until the sender does the same.
    Close,
    /// Closes the TCP connection without TLS's `close_notify`.
    CloseTcp,
    /// Closes the connection with a TCP reset.
    Reset,
}

pub(crate) fn write(bytes: impl AsRef<[u8]>) -> Step {
    Step::Write(bytes.as_ref().to_vec())
}

pub(crate) fn drip(bytes: impl AsRef<[u8]>) -> Step {
    Step::Drip(bytes.as_ref().to_vec())
}

/// Repeats the bytes in a large buffer, so that a flood is not limited by many small writes.
pub(crate) fn flood(bytes: impl AsRef<[u8]>) -> Step {
    let bytes = bytes.as_ref();
    Step::Flood(bytes.repeat(8_192 / bytes.len() + 1))
}

/// The URL scheme of a receiver, and the layer that its script runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    /// `http://`, on the TCP socket.
    Plain,
    /// `https://`, after this handshake.
    Tls(Handshake),
    /// `https://`, on the TCP socket: the script replaces TLS.
    InsteadOfTls,
}

/// The outcome that an attempt must have.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ExpectedOutcome {
    Status(u16),
    Class(ErrorClass),
    /// Either outcome is correct, because two events race.
    Either(&'static ExpectedOutcome, &'static ExpectedOutcome),
}

pub(crate) const CONNECT: ExpectedOutcome = ExpectedOutcome::Class(ErrorClass::Connect);
pub(crate) const DELIVERED: ExpectedOutcome = ExpectedOutcome::Status(200);
pub(crate) const TIMEOUT: ExpectedOutcome = ExpectedOutcome::Class(ErrorClass::Timeout);
pub(crate) const RESET: ExpectedOutcome = ExpectedOutcome::Class(ErrorClass::Reset);
pub(crate) const BROKEN: ExpectedOutcome = ExpectedOutcome::Class(ErrorClass::BrokenResponse);
pub(crate) const TLS: ExpectedOutcome = ExpectedOutcome::Class(ErrorClass::Tls);
pub(crate) const CERTIFICATE: ExpectedOutcome = ExpectedOutcome::Class(ErrorClass::Certificate);

impl ExpectedOutcome {
    pub(crate) fn matches(self, outcome: &Outcome) -> bool {
        match self {
            Self::Status(status) => outcome.http_status() == Some(status),
            Self::Class(class) => outcome.error_class() == Some(class),
            Self::Either(one, other) => one.matches(outcome) || other.matches(outcome),
        }
    }

    fn is_timeout(self) -> bool {
        matches!(self, Self::Class(ErrorClass::Timeout))
    }
}

/// Deadline of attempts that must end without reaching it, even on a busy machine.
pub(crate) const AMPLE: Duration = Duration::from_secs(30);
/// Deadline of attempts that must reach it, after a TLS handshake and a request. Shorter than the scripts that drip.
const SHORT: Duration = Duration::from_millis(1_500);
/// Payload size of attempts for which the size does not matter.
pub(crate) const SMALL_BYTES: usize = 64;

/// One behaviour of a receiver, and the outcome that an attempt must have.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) over: Transport,
    pub(crate) steps: Arc<[Step]>,
    pub(crate) expected: ExpectedOutcome,
    pub(crate) deadline: Duration,
    /// Number of request heads that the receiver reads.
    pub(crate) requests: RangeInclusive<usize>,
    pub(crate) payload_bytes: usize,
}

/// Creates a case whose receiver reads one request. Its deadline is short if the expected outcome is a timeout.
pub(crate) fn case<const N: usize>(
    name: &'static str,
    over: Transport,
    steps: [Step; N],
    expected: ExpectedOutcome,
) -> Case {
    let deadline = if expected.is_timeout() { SHORT } else { AMPLE };
    Case {
        name,
        over,
        steps: Arc::new(steps),
        expected,
        deadline,
        requests: 1..=1,
        payload_bytes: SMALL_BYTES,
    }
}

impl Case {
    /// The body lasts until the deadline, although the status has decided the outcome.
    pub(crate) fn until_deadline(self) -> Self {
        Self { deadline: SHORT, ..self }
    }

    /// The receiver reads no request.
    pub(crate) fn unread(self) -> Self {
        Self { requests: 0..=0, ..self }
    }

    /// The receiver reads the request or not, depending on a race.
    pub(crate) fn maybe_read(self) -> Self {
        Self { requests: 0..=1, ..self }
    }

    pub(crate) fn with_payload(self, payload_bytes: usize) -> Self {
        Self { payload_bytes, ..self }
    }

    /// Returns whether the receiver ends the connection itself.
    pub(crate) fn ends(&self) -> bool {
        matches!(self.steps.last(), Some(Step::Close | Step::CloseTcp | Step::Reset))
    }

    pub(crate) fn floods(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Flood(_)))
    }
}
