//! Background operations on the events of an endpoint: durable, in small steps, at a limited rate.

use std::time::Duration;

use async_trait::async_trait;
use posthaste_domain::{ApplicationId, EndpointId, EndpointRef, OperationId, Throttle, Timestamp};

use super::{AnswerSlot, AppScope, List, ListRequest};
use crate::StoreError;

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationKind {
    /// Reopens the failed events of the endpoint, except cancelled ones.
    Recover,
    /// Adds the events that the endpoint missed: of messages that its subscription matches now, and that it never got.
    ReplayMissing,
}

posthaste_domain::named_variants!(OperationKind {
    Recover => "recover",
    ReplayMissing => "replay_missing",
});

/// How far an operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationState {
    Running,
    Finished,
    /// An operator stopped it, or its endpoint was deleted.
    Stopped,
}

posthaste_domain::named_variants!(OperationState {
    Running => "running",
    Finished => "finished",
    Stopped => "stopped",
});

/// A period in the past, in durations before now: of at most fourteen days.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PastRange {
    since_ago: Duration,
    until_ago: Duration,
}

/// A period that is too long, or ends before it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the period must end after it begins, and last at most {} days", PastRange::MAX.as_secs() / 86_400)]
pub struct InvalidRange;

impl PastRange {
    pub const MAX: Duration = Duration::from_secs(14 * 86_400);

    /// Validates a period from `since_ago` before now until `until_ago` before now.
    pub fn new(since_ago: Duration, until_ago: Duration) -> Result<Self, InvalidRange> {
        let is_valid = since_ago >= until_ago && since_ago - until_ago <= Self::MAX;
        if is_valid { Ok(Self { since_ago, until_ago }) } else { Err(InvalidRange) }
    }

    /// Returns the first and the last time of the period.
    pub fn times(&self, now: Timestamp) -> (Timestamp, Timestamp) {
        (now.before(self.since_ago), now.before(self.until_ago))
    }
}

/// A request to start an operation.
#[derive(Debug, Clone)]
pub struct NewOperation<'a> {
    pub kind: OperationKind,
    pub endpoint: &'a EndpointRef,
    /// When the messages were published.
    pub range: PastRange,
    /// Events per second that the operation reopens or adds.
    pub rate: Throttle,
    pub actor: &'a str,
}

/// A stored operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    pub id: OperationId,
    pub app: ApplicationId,
    pub endpoint: EndpointId,
    pub kind: OperationKind,
    pub state: OperationState,
    pub since: Timestamp,
    pub until: Timestamp,
    pub rate: Throttle,
    /// Events or messages that it has examined.
    pub examined_count: u64,
    /// Events that it has reopened or added.
    pub done_count: u64,
    pub actor: String,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// The result of one step of the running operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Advance {
    /// Events that the step reopened or added.
    pub done: usize,
    /// Time until the next step has something to do. `None` if no operation is running.
    pub next_in: Option<Duration>,
}

impl Advance {
    /// Adds the step of another operation.
    pub fn add(&mut self, step: Self) {
        self.done += step.done;
        self.next_in = [self.next_in, step.next_in].into_iter().flatten().min();
    }
}

/// Access to the background operations of a store.
#[async_trait]
pub trait Operations: Send + Sync {
    /// Starts an operation. Fails with [`StoreError::EndpointDisabled`] if its endpoint is disabled.
    async fn start(
        &self,
        scope: AppScope<'_>,
        new: &NewOperation<'_>,
        answer: Option<&AnswerSlot<Operation>>,
    ) -> Result<Operation, StoreError>;

    async fn get(&self, scope: AppScope<'_>, id: OperationId) -> Result<Operation, StoreError>;

    /// Lists the operations of all applications, newest first, for operators.
    async fn list(
        &self,
        state: Option<OperationState>,
        request: &ListRequest<OperationId>,
    ) -> Result<List<Operation>, StoreError>;

    /// Ends a running operation. What it has done stays done. Changes nothing if it has ended.
    async fn stop(&self, id: OperationId) -> Result<Operation, StoreError>;

    /// Runs one step of each running operation: examines at most `rows_max` rows of each, and stays within its rate. Two workers
    /// may call it at the same time; each event is reopened or added once.
    async fn advance(&self, rows_max: usize) -> Result<Advance, StoreError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_lasts_fourteen_days_at_most() {
        let days = |days: u64| Duration::from_secs(days * 86_400);
        assert!(PastRange::new(days(14), days(0)).is_ok());
        assert!(PastRange::new(days(30), days(20)).is_ok());
        assert_eq!(PastRange::new(days(15), days(0)), Err(InvalidRange));
        assert_eq!(PastRange::new(days(1), days(2)), Err(InvalidRange));
        let now = Timestamp::from_secs(1_700_000_000);
        let (since, until) = PastRange::new(days(2), days(1)).unwrap().times(now);
        assert_eq!((now.since(since), now.since(until)), (days(2), days(1)));
    }
}
