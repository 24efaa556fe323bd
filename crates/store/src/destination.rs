//! Destinations as operators see and steer them: pauses, circuits, failures, and the events that wait for them.

use std::collections::BTreeMap;
use std::time::Duration;

use posthaste_domain::{
    ApplicationId, DestinationId, DestinationUrl, DisableReason, EndpointId, Timestamp, WorkerId,
};

use crate::registry::DisabledEndpoint;

/// Maximum number of pending events that are counted for a destination that is shown alone.
pub const PENDING_COUNT_MAX: u64 = 10_000;
/// Maximum number of pending events that are counted for each destination of a list.
pub const LISTED_PENDING_COUNT_MAX: u64 = 1_000;
/// Maximum number of held events that an overview counts.
pub const HELD_COUNT_MAX: u64 = 10_000;
/// Maximum number of audit entries that are shown with a destination.
pub const DESTINATION_AUDIT_MAX: usize = 100;

/// Whether events are sent to a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DestinationState {
    /// Events are sent, and the last result was no failure of the receiver.
    Ok,
    /// Events are sent, but the receiver has been failing.
    Failing,
    /// A worker holds its events back after repeated failures, and probes with single requests.
    CircuitOpen,
    /// An operator or the receiver has paused it, so no event is claimed.
    Paused,
    /// It is an endpoint that is disabled, so no event is claimed.
    Disabled,
}

posthaste_domain::named_variants!(DestinationState {
    Ok => "ok",
    Failing => "failing",
    CircuitOpen => "circuit_open",
    Paused => "paused",
    Disabled => "disabled",
});

/// Everything that decides whether events are sent to a destination. Ended pauses and expired circuit reports are left
/// out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DestinationStatus {
    pub id: DestinationId,
    pub url: DestinationUrl,
    /// The application of an endpoint. `None` if events are enqueued to the URL itself.
    pub app: Option<ApplicationId>,
    /// Since when and why an endpoint is disabled.
    pub disabled: Option<DisabledEndpoint>,
    pub operator_pause: Option<OperatorPause>,
    pub receiver_pause: Option<ReceiverPause>,
    /// The open circuits of all workers, merged. `None` if no worker reports one.
    pub circuit: Option<OpenCircuit>,
    /// When the current run of failures began. `None` while the receiver is healthy.
    pub failing_since: Option<Timestamp>,
}

/// A pause by an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorPause {
    pub actor: String,
    pub at: Timestamp,
    /// `None` lasts until an operator resumes the destination.
    pub until: Option<Timestamp>,
    pub reason: Option<String>,
}

/// A pause that the receiver requested with `Retry-After`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiverPause {
    pub at: Timestamp,
    pub until: Timestamp,
}

/// An open or half-open circuit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenCircuit {
    /// When the circuit opened after it was last closed.
    pub since: Timestamp,
    /// When the next probe is due. A probe that is due waits for an event, or is in flight.
    pub next_probe_at: Timestamp,
    /// The failure that a worker saw last: of several workers, the one whose id sorts first.
    pub last_error: Option<String>,
}

impl OpenCircuit {
    /// Merges the circuits that several workers report: the earliest opening, the earliest probe, and the first error.
    pub fn merge(reported: impl IntoIterator<Item = Self>) -> Option<Self> {
        reported.into_iter().reduce(|one, other| Self {
            since: one.since.min(other.since),
            next_probe_at: one.next_probe_at.min(other.next_probe_at),
            last_error: one.last_error.or(other.last_error),
        })
    }
}

impl DestinationStatus {
    /// Derives the state. A disabled endpoint stays so until it is enabled. A pause precedes a circuit, because it also stops
    /// probes.
    pub fn state(&self) -> DestinationState {
        if self.disabled.is_some() {
            DestinationState::Disabled
        } else if self.operator_pause.is_some() || self.receiver_pause.is_some() {
            DestinationState::Paused
        } else if self.circuit.is_some() {
            DestinationState::CircuitOpen
        } else if self.failing_since.is_some() {
            DestinationState::Failing
        } else {
            DestinationState::Ok
        }
    }

    /// Returns whether pending events wait although they are due: the destination is disabled or paused, or its circuit is
    /// open.
    pub fn is_held(&self) -> bool {
        use DestinationState::{CircuitOpen, Disabled, Paused};
        matches!(self.state(), Disabled | Paused | CircuitOpen)
    }

    /// Returns whether claims grant no event of the destination: it is disabled or paused.
    pub fn is_paused(&self) -> bool {
        matches!(self.state(), DestinationState::Disabled | DestinationState::Paused)
    }

    /// The id of the endpoint, if the destination is one.
    pub fn endpoint(&self) -> Option<EndpointId> {
        self.app.map(|_| EndpointId(self.id))
    }

    /// When the current state began. `None` for a destination in the state `ok`.
    pub fn since(&self) -> Option<Timestamp> {
        match self.state() {
            DestinationState::Ok => None,
            DestinationState::Failing => self.failing_since,
            DestinationState::CircuitOpen => self.circuit.as_ref().map(|circuit| circuit.since),
            DestinationState::Paused => {
                let operator = self.operator_pause.as_ref().map(|pause| pause.at);
                operator.into_iter().chain(self.receiver_pause.map(|pause| pause.at)).min()
            }
            DestinationState::Disabled => self.disabled.map(|disabled| disabled.at),
        }
    }

    /// When the later of the two pauses ends. `None` if the destination is not paused, or until an operator resumes it.
    pub fn paused_until(&self) -> Option<Timestamp> {
        let receiver = self.receiver_pause.map(|pause| pause.until);
        match &self.operator_pause {
            None => receiver,
            Some(pause) => pause.until.max(receiver).filter(|_| pause.until.is_some()),
        }
    }

    /// When the next probe of an open circuit is due.
    pub fn next_probe_at(&self) -> Option<Timestamp> {
        self.circuit.as_ref().map(|circuit| circuit.next_probe_at)
    }

    /// Why the destination is in its state, in words. `None` for a destination in the state `ok`.
    pub fn reason(&self) -> Option<String> {
        match (self.state(), &self.operator_pause) {
            (DestinationState::Ok, _) => None,
            (DestinationState::Disabled, _) => self.disabled.map(|disabled| {
                match disabled.reason {
                    DisableReason::Manual => "the endpoint was disabled",
                    DisableReason::Gone => "the receiver responded that the endpoint is gone",
                    DisableReason::Failing => "the receiver has been failing for too long",
                }
                .to_owned()
            }),
            (DestinationState::Failing, _) => Some("the last attempts failed".to_owned()),
            (DestinationState::CircuitOpen, _) => {
                Some("the circuit breaker is open after repeated failures".to_owned())
            }
            (DestinationState::Paused, None) => Some("the receiver requested a pause".to_owned()),
            (DestinationState::Paused, Some(pause)) => Some(match &pause.reason {
                None => format!("paused by {}", pause.actor),
                Some(reason) => format!("paused by {}: {reason}", pause.actor),
            }),
        }
    }
}

/// A destination with the events that wait for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DestinationView {
    pub status: DestinationStatus,
    /// Leases held now.
    pub in_flight: u64,
    pub pending: PendingCount,
    /// The last error of its open circuit, or else of the pending retry that is due last.
    pub last_error: Option<String>,
}

/// A number of pending events that is counted up to a limit, so that its cost does not grow with the backlog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PendingCount {
    pub count: u64,
    /// Whether the count stopped at its limit. There are more events than `count` then.
    pub is_capped: bool,
    /// Age of the oldest event among those counted. `None` if there are none.
    pub oldest_age: Option<Duration>,
}

impl PendingCount {
    /// Builds the result of counting at most one event more than `count_max`.
    pub fn of(counted: u64, count_max: u64, oldest_age: Option<Duration>) -> Self {
        Self { count: counted.min(count_max), is_capped: counted > count_max, oldest_age }
    }
}

/// A destination with the latest actions of operators on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DestinationDetail {
    pub destination: DestinationView,
    /// The latest [`DESTINATION_AUDIT_MAX`] actions, oldest first.
    pub audit: Vec<DestinationAudit>,
}

/// An operator's action on a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DestinationAction {
    Pause,
    Resume,
    /// An endpoint was disabled, by a caller or by its receiver's answers.
    Disable,
    Enable,
    RotateKey,
    Delete,
    /// An operator asked for a probe while the circuit was open.
    Probe,
}

posthaste_domain::named_variants!(DestinationAction {
    Pause => "pause",
    Resume => "resume",
    Disable => "disable",
    Enable => "enable",
    RotateKey => "rotate_key",
    Delete => "delete",
    Probe => "probe",
});

/// The actor in the audit log of what Posthaste did on its own.
pub const SYSTEM_ACTOR: &str = "posthaste";

/// An entry of the audit log of destinations: which operator did what, when and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DestinationAudit {
    pub action: DestinationAction,
    pub actor: String,
    pub at: Timestamp,
    /// The planned end of a pause. `None` for a pause without end, and for a resume.
    pub until: Option<Timestamp>,
    pub reason: Option<String>,
}

/// An operator's request to pause a destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PauseRequest {
    actor: String,
    duration: Option<Duration>,
    reason: Option<String>,
}

impl PauseRequest {
    /// Builds a request. Without a duration the pause lasts until an operator resumes the destination. A reason without
    /// visible text counts as none.
    pub fn new(actor: &str, duration: Option<Duration>, reason: Option<&str>) -> Self {
        // PostgreSQL text cannot hold NUL.
        let reason = reason.map(|reason| reason.replace('\0', "").trim().to_owned());
        Self { actor: actor.to_owned(), duration, reason: reason.filter(|reason| !reason.is_empty()) }
    }

    pub fn actor(&self) -> &str {
        &self.actor
    }

    /// How long the pause lasts. `None` until an operator resumes the destination.
    pub const fn duration(&self) -> Option<Duration> {
        self.duration
    }

    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }
}

/// What one worker reports about the circuit of one destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CircuitReport {
    pub worker: WorkerId,
    pub destination: DestinationId,
    /// `None` reports that the circuit has closed.
    pub open: Option<OpenCircuitReport>,
}

impl CircuitReport {
    /// Returns the reports that count, ordered by destination and worker: of several reports of one worker on one
    /// destination, the last.
    pub fn last_of_each(reports: &[Self]) -> Vec<&Self> {
        let last: BTreeMap<_, _> =
            reports.iter().map(|report| ((report.destination, &report.worker), report)).collect();
        last.into_values().collect()
    }
}

/// A worker's report of a circuit that is open or half open, in durations on the worker's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenCircuitReport {
    /// Time since the circuit opened after it was last closed.
    pub open_for: Duration,
    /// Time until the next probe, or zero if a probe is due or in flight.
    pub next_probe_in: Duration,
    /// The failure that the worker saw last.
    pub last_error: Option<String>,
    /// How long the report is valid. The report of a dead worker, which does not renew it, expires.
    pub expires_in: Duration,
}

/// A destination that an operator has resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResumedDestination {
    pub destination: DestinationId,
    /// Time since the resume.
    pub ago: Duration,
}

/// A destination for which an operator has asked for a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestedProbe {
    pub destination: DestinationId,
    /// By the store's clock. It names the request: no other request of the destination has the same time.
    pub requested_at: Timestamp,
}

/// The result of asking for a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeResponse {
    pub status: DestinationStatus,
    /// Why no probe is sent. `None` if workers send one.
    pub refusal: Option<ProbeRefusal>,
}

/// Why a probe makes no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeRefusal {
    /// A probe would not lift the pause.
    Paused,
    NoOpenCircuit,
    /// A probe is the request of an event, and no event waits for one.
    NoWaitingEvent,
}

impl DestinationStatus {
    /// Returns why no probe is sent, if that is so.
    pub fn refuse_probe(&self, has_waiting_event: bool) -> Option<ProbeRefusal> {
        if self.is_paused() {
            Some(ProbeRefusal::Paused)
        } else if self.circuit.is_none() {
            Some(ProbeRefusal::NoOpenCircuit)
        } else if !has_waiting_event {
            Some(ProbeRefusal::NoWaitingEvent)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: Timestamp = Timestamp::from_secs(1_700_000_000);

    fn after(seconds: u64) -> Timestamp {
        NOON.after(Duration::from_secs(seconds))
    }

    fn healthy() -> DestinationStatus {
        DestinationStatus {
            id: DestinationId(1),
            url: DestinationUrl::parse("https://receiver.example/").unwrap(),
            app: None,
            disabled: None,
            operator_pause: None,
            receiver_pause: None,
            circuit: None,
            failing_since: None,
        }
    }

    fn operator_pause(until: Option<Timestamp>) -> Option<OperatorPause> {
        Some(OperatorPause { actor: "ann".to_owned(), at: after(30), until, reason: None })
    }

    fn summary(status: &DestinationStatus) -> (DestinationState, Option<Timestamp>, Option<Timestamp>) {
        (status.state(), status.since(), status.paused_until())
    }

    #[test]
    fn the_strongest_hold_is_the_state() {
        use DestinationState::{CircuitOpen, Failing, Ok, Paused};
        let mut status = healthy();
        assert_eq!((summary(&status), status.reason(), status.is_held()), ((Ok, None, None), None, false));
        status.failing_since = Some(NOON);
        assert_eq!((summary(&status), status.is_held()), ((Failing, Some(NOON), None), false));
        status.circuit = Some(OpenCircuit {
            since: after(10),
            next_probe_at: after(40),
            last_error: Some("HTTP 500".into()),
        });
        assert_eq!((summary(&status), status.is_held()), ((CircuitOpen, Some(after(10)), None), true));
        assert_eq!(status.next_probe_at(), Some(after(40)));
        status.receiver_pause = Some(ReceiverPause { at: after(20), until: after(80) });
        assert_eq!((summary(&status), status.is_held()), ((Paused, Some(after(20)), Some(after(80))), true));
        assert_eq!(status.reason().unwrap(), "the receiver requested a pause");
        status.disabled = Some(DisabledEndpoint { at: after(50), reason: DisableReason::Gone });
        assert_eq!((status.state(), status.since()), (DestinationState::Disabled, Some(after(50))));
        assert!(status.reason().unwrap().contains("gone") && status.is_held());
    }

    #[test]
    fn the_later_of_two_pauses_ends_the_hold() {
        let receiver_pause = Some(ReceiverPause { at: after(20), until: after(80) });
        let paused_until = |until| {
            DestinationStatus { operator_pause: operator_pause(until), receiver_pause, ..healthy() }
                .paused_until()
        };
        assert_eq!(paused_until(Some(after(60))), Some(after(80)));
        assert_eq!(paused_until(Some(after(90))), Some(after(90)));
        assert_eq!(paused_until(None), None, "it lasts until an operator resumes the destination");
    }

    #[test]
    fn the_reason_of_an_operators_pause_names_the_operator() {
        let mut status = DestinationStatus { operator_pause: operator_pause(None), ..healthy() };
        assert_eq!(status.reason().unwrap(), "paused by ann");
        status.operator_pause.as_mut().unwrap().reason = Some("maintenance".to_owned());
        assert_eq!(status.reason().unwrap(), "paused by ann: maintenance");
    }

    #[test]
    fn a_blank_reason_is_none() {
        assert_eq!(PauseRequest::new("ann", None, Some(" \0\n")).reason(), None);
        assert_eq!(PauseRequest::new("ann", None, Some(" new\0 disks ")).reason(), Some("new disks"));
    }
}
