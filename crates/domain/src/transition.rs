//! What a settle writes. The row, the log line, the metric labels, the counters and the notice all read it here.

use std::time::Duration;

use crate::{
    Decision, DeliveryStatus, DestinationId, EventId, EventKey, FailureKind, Lease, LeaseToken, NoticeKind,
    Outcome, RetryPolicy, Roll, Standing, Trigger, decide,
};

/// One attempt as it was observed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempted {
    pub outcome: Outcome,
    /// From the start of the request to its outcome.
    pub duration: Duration,
}

/// A legal change of one event under one lease. Built only by [`Transition::of`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transition {
    key: EventKey,
    event_id: EventId,
    token: LeaseToken,
    destination_id: DestinationId,
    attempt: u32,
    trigger: Trigger,
    attempted: Attempted,
    decision: Decision,
}

impl Transition {
    pub fn of(lease: &Lease, attempted: Attempted, policy: &RetryPolicy, roll: Roll) -> Self {
        let standing = Standing { attempts: lease.attempts, max_attempts: lease.max_attempts };
        Self {
            key: lease.key,
            event_id: lease.event_id.clone(),
            token: lease.token,
            destination_id: lease.destination_id,
            attempt: lease.attempt(),
            trigger: lease.trigger,
            decision: decide(standing, &attempted.outcome, policy, roll),
            attempted,
        }
    }

    pub fn key(&self) -> EventKey {
        self.key
    }

    pub fn event_id(&self) -> &EventId {
        &self.event_id
    }

    /// The fence: the row changes only while this is its token.
    pub fn token(&self) -> LeaseToken {
        self.token
    }

    pub fn destination_id(&self) -> DestinationId {
        self.destination_id
    }

    /// The attempt's number, and so the event's `attempts` once this is written.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    pub fn trigger(&self) -> Trigger {
        self.trigger
    }

    pub fn outcome(&self) -> &Outcome {
        &self.attempted.outcome
    }

    pub fn duration(&self) -> Duration {
        self.attempted.duration
    }

    pub fn decision(&self) -> Decision {
        self.decision
    }

    pub fn status(&self) -> DeliveryStatus {
        match self.decision {
            Decision::Delivered => DeliveryStatus::Delivered,
            Decision::Retry { .. } => DeliveryStatus::Pending,
            Decision::Failed(_) => DeliveryStatus::Failed,
        }
    }

    pub fn failure_kind(&self) -> Option<FailureKind> {
        match self.decision {
            Decision::Failed(kind) => Some(kind),
            Decision::Delivered | Decision::Retry { .. } => None,
        }
    }

    /// How long until the event is due again; none once it is terminal.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.decision {
            Decision::Retry { after } => Some(after),
            Decision::Delivered | Decision::Failed(_) => None,
        }
    }

    pub fn last_error(&self) -> Option<String> {
        self.outcome().last_error()
    }

    /// How long the whole destination is to be left alone, whatever became of this event.
    pub fn pause(&self) -> Option<Duration> {
        self.outcome().pause()
    }

    /// Terminal changes are broadcast; retries are not.
    pub fn notice(&self) -> Option<NoticeKind> {
        match self.decision {
            Decision::Delivered => Some(NoticeKind::Delivered),
            Decision::Failed(_) => Some(NoticeKind::DeadLettered),
            Decision::Retry { .. } => None,
        }
    }

    /// The label under which this attempt is counted and logged.
    pub fn label(&self) -> &'static str {
        match self.decision {
            Decision::Delivered => "delivered",
            Decision::Retry { .. } => "retried",
            Decision::Failed(kind) => kind.as_str(),
        }
    }
}
