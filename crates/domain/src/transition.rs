//! The state change that a settle writes. The row, log line, metric labels, counters and notice all derive from it.

use std::time::Duration;

use crate::{
    AttemptCounts, Decision, DeliveryStatus, DestinationId, DisableReason, EventId, EventKey, FailureKind,
    Lease, LeaseToken, NoticeKind, Outcome, RandomDraw, ReceiverHealth, RetryPolicy, Trigger, decide,
};

/// When the result of an attempt disables the endpoint that it was sent to. It concerns no other destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndpointDisable {
    /// At once: the receiver responded that the endpoint is gone.
    Gone,
    /// If the endpoint has been failing for so long.
    FailingFor(Duration),
}

impl EndpointDisable {
    pub const fn reason(self) -> DisableReason {
        match self {
            Self::Gone => DisableReason::Gone,
            Self::FailingFor(_) => DisableReason::Failing,
        }
    }
}

/// What the worker observed of one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptResult {
    pub outcome: Outcome,
    /// Time from the start of the request to its outcome.
    pub duration: Duration,
}

/// A legal state change of one event under one lease. Only [`Transition::from_attempt`] builds one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    key: EventKey,
    event_id: EventId,
    token: LeaseToken,
    destination_id: DestinationId,
    attempt: u32,
    trigger: Trigger,
    result: AttemptResult,
    decision: Decision,
    destination_pause: Option<Duration>,
    endpoint_disable: Option<EndpointDisable>,
}

impl Transition {
    /// Decides what happens to the leased event after this attempt.
    pub fn from_attempt(
        lease: &Lease,
        result: AttemptResult,
        policy: &RetryPolicy,
        draw: RandomDraw,
    ) -> Self {
        let counts = AttemptCounts { attempts: lease.attempts, max_attempts: lease.max_attempts };
        let decision = decide(counts, &result.outcome, policy, draw);
        let is_failing = result.outcome.health() == ReceiverHealth::Unhealthy;
        let endpoint_disable = match decision {
            Decision::Failed(FailureKind::Gone) => Some(EndpointDisable::Gone),
            _ => policy.disable_endpoints_after().filter(|_| is_failing).map(EndpointDisable::FailingFor),
        };
        Self {
            key: lease.key,
            event_id: lease.event_id.clone(),
            token: lease.token,
            destination_id: lease.destination_id,
            attempt: lease.attempt(),
            trigger: lease.trigger,
            decision,
            destination_pause: policy.honoured_pause(&result.outcome),
            endpoint_disable,
            result,
        }
    }

    pub fn key(&self) -> EventKey {
        self.key
    }

    pub fn event_id(&self) -> &EventId {
        &self.event_id
    }

    /// The fencing token: the row changes only while it holds this token.
    pub fn token(&self) -> LeaseToken {
        self.token
    }

    pub fn destination_id(&self) -> DestinationId {
        self.destination_id
    }

    /// The number of the attempt, which becomes the `attempts` of the event.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    pub fn trigger(&self) -> Trigger {
        self.trigger
    }

    pub fn outcome(&self) -> &Outcome {
        &self.result.outcome
    }

    /// Time from the start of the request to its outcome.
    pub fn duration(&self) -> Duration {
        self.result.duration
    }

    pub fn decision(&self) -> Decision {
        self.decision
    }

    /// The state of the event after the attempt.
    pub fn status(&self) -> DeliveryStatus {
        match self.decision {
            Decision::Delivered => DeliveryStatus::Delivered,
            Decision::Retry { .. } => DeliveryStatus::Pending,
            Decision::Failed(_) => DeliveryStatus::Failed,
        }
    }

    /// Why the event is dead-lettered, if it is.
    pub fn failure_kind(&self) -> Option<FailureKind> {
        match self.decision {
            Decision::Failed(kind) => Some(kind),
            Decision::Delivered | Decision::Retry { .. } => None,
        }
    }

    /// The delay until the event is due again, or `None` if it reached a terminal state.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.decision {
            Decision::Retry { after } => Some(after),
            Decision::Delivered | Decision::Failed(_) => None,
        }
    }

    /// The text that operators see as the last error of the event.
    pub fn last_error(&self) -> Option<String> {
        self.outcome().last_error()
    }

    /// The pause of the whole destination that the receiver requested and the policy honours. It applies even if this
    /// event is in a terminal state.
    pub fn destination_pause(&self) -> Option<Duration> {
        self.destination_pause
    }

    /// When the result disables the endpoint, if the destination is one.
    pub fn endpoint_disable(&self) -> Option<EndpointDisable> {
        self.endpoint_disable
    }

    /// The notice to publish: terminal states are broadcast, retries are not.
    pub fn notice_kind(&self) -> Option<NoticeKind> {
        match self.decision {
            Decision::Delivered => Some(NoticeKind::Delivered),
            Decision::Failed(kind) => Some(NoticeKind::DeadLettered(kind)),
            Decision::Retry { .. } => None,
        }
    }

    /// The result of the attempt as a metric label and in logs: `delivered`, `retried` or the failure kind.
    pub fn label(&self) -> &'static str {
        match self.decision {
            Decision::Delivered => "delivered",
            Decision::Retry { .. } => "retried",
            Decision::Failed(kind) => kind.as_str(),
        }
    }
}
