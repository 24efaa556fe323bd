//! Bulk operations: one action on all dead letters that a filter selects; durable, in small steps, at a limited rate.

use async_trait::async_trait;
use posthaste_domain::{
    ApplicationId, BulkId, DestinationUrl, EndpointId, ErrorClass, FailureKind, Throttle, Timestamp,
    named_variants,
};

use crate::{Advance, List, ListRequest, ManualAction, OperationState, StoreError};

/// What a bulk operation does with each dead letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BulkAction {
    /// Makes the event pending, due now, with its attempts reset.
    Requeue,
    /// Changes the kind of the failure to `cancelled`.
    Cancel,
    /// Removes the event for good.
    Discard,
}

named_variants!(BulkAction {
    Requeue => "requeue",
    Cancel => "cancel",
    Discard => "discard",
});

impl BulkAction {
    /// The action that the audit log of each event records.
    pub const fn of_event(self) -> ManualAction {
        match self {
            Self::Requeue => ManualAction::Requeue,
            Self::Cancel => ManualAction::Cancel,
            Self::Discard => ManualAction::Discard,
        }
    }
}

/// The errors that a filter selects: a class without a response, one HTTP status, or a hundred of them.
///
/// It selects by the beginning of `last_error`, up to the first colon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorFilter {
    Class(ErrorClass),
    /// A status from 300 to 599.
    Status(u16),
    /// All statuses of one hundred: 3, 4 or 5.
    StatusClass(u8),
}

impl ErrorFilter {
    /// Parses the name of an [`ErrorClass`], `http_503`, or `http_5xx`.
    pub fn parse(text: &str) -> Option<Self> {
        let Some(status) = text.strip_prefix("http_") else {
            return ErrorClass::from_name(text).map(Self::Class);
        };
        match status.as_bytes() {
            [hundred @ b'3'..=b'5', b'x', b'x'] => Some(Self::StatusClass(hundred - b'0')),
            [b'3'..=b'5', b'0'..=b'9', b'0'..=b'9'] => status.parse().ok().map(Self::Status),
            _ => None,
        }
    }

    /// Returns a pattern of SQL's `LIKE` for the beginning of `last_error`.
    pub fn pattern(self) -> String {
        match self {
            Self::Class(class) => class.as_str().to_owned(),
            Self::Status(status) => format!("HTTP {status}"),
            Self::StatusClass(hundred) => format!("HTTP {hundred}__"),
        }
    }

    /// Returns whether the filter selects a dead letter with this error.
    pub fn matches(self, last_error: &str) -> bool {
        let head = last_error.split_once(':').map_or(last_error, |(head, _)| head);
        match self {
            Self::Class(class) => head == class.as_str(),
            Self::Status(status) => head.strip_prefix("HTTP ").is_some_and(|text| text == status.to_string()),
            Self::StatusClass(hundred) => head.strip_prefix("HTTP ").is_some_and(|text| {
                text.len() == 3 && text.starts_with(|first| first == char::from(b'0' + hundred))
            }),
        }
    }
}

impl std::fmt::Display for ErrorFilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Class(class) => f.write_str(class.as_str()),
            Self::Status(status) => write!(f, "http_{status}"),
            Self::StatusClass(hundred) => write!(f, "http_{hundred}xx"),
        }
    }
}

/// Which dead letters a bulk operation selects: those that meet every condition.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BulkFilter {
    /// Events that were enqueued to this URL.
    pub destination: Option<DestinationUrl>,
    /// Events of this endpoint.
    pub endpoint: Option<EndpointId>,
    pub app: Option<ApplicationId>,
    pub event_type: Option<String>,
    /// Without it, every kind but `cancelled`: what an operator has cancelled stays cancelled.
    pub failure_kind: Option<FailureKind>,
    pub error: Option<ErrorFilter>,
    /// The event failed at this time or later.
    pub since: Option<Timestamp>,
    /// The event failed at this time or earlier.
    pub until: Option<Timestamp>,
}

/// A dead letter as a filter sees it.
#[derive(Debug, Clone, Copy)]
pub struct BulkCandidate<'a> {
    /// The URL to which the event was enqueued, or `None` for an event of an endpoint.
    pub url: Option<&'a DestinationUrl>,
    pub endpoint: Option<EndpointId>,
    pub app: Option<ApplicationId>,
    pub event_type: &'a str,
    pub failure_kind: FailureKind,
    pub last_error: Option<&'a str>,
    pub failed_at: Timestamp,
}

impl BulkFilter {
    /// Returns whether the filter selects a dead letter.
    pub fn matches(&self, candidate: &BulkCandidate<'_>) -> bool {
        let kind_matches = match self.failure_kind {
            Some(kind) => candidate.failure_kind == kind,
            None => candidate.failure_kind != FailureKind::Cancelled,
        };
        kind_matches && self.matches_apart_from_kind(candidate)
    }

    /// Returns whether a dead letter meets the other conditions, whatever its kind.
    pub(crate) fn matches_apart_from_kind(&self, candidate: &BulkCandidate<'_>) -> bool {
        self.destination.as_ref().is_none_or(|wanted| candidate.url == Some(wanted))
            && self.endpoint.is_none_or(|wanted| candidate.endpoint == Some(wanted))
            && self.app.is_none_or(|wanted| candidate.app == Some(wanted))
            && self.event_type.as_deref().is_none_or(|wanted| candidate.event_type == wanted)
            && self.error.is_none_or(|wanted| candidate.last_error.is_some_and(|error| wanted.matches(error)))
            && self.since.is_none_or(|since| candidate.failed_at >= since)
            && self.until.is_none_or(|until| candidate.failed_at <= until)
    }
}

/// How many dead letters a filter selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BulkCount {
    pub count: u64,
    /// False if there are more than [`BULK_COUNT_MAX`], which is then the count.
    pub is_exact: bool,
}

/// The number of dead letters at which counting ends.
pub const BULK_COUNT_MAX: u64 = 2_000_000;

impl BulkCount {
    /// The result of counting up to one more than [`BULK_COUNT_MAX`].
    pub fn of(counted: u64) -> Self {
        Self { count: counted.min(BULK_COUNT_MAX), is_exact: counted <= BULK_COUNT_MAX }
    }
}

/// A request to start a bulk operation.
#[derive(Debug, Clone)]
pub struct NewBulkOperation<'a> {
    pub action: BulkAction,
    pub filter: BulkFilter,
    /// Dead letters per second.
    pub rate: Throttle,
    /// What [`BulkOperations::count`] has just returned for the filter.
    pub matched: BulkCount,
    pub reason: Option<&'a str>,
    pub actor: &'a str,
    /// Names the request. A repetition under the same key returns the operation that the first one started.
    pub key: Option<&'a str>,
}

/// A stored bulk operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BulkOperation {
    pub id: BulkId,
    pub action: BulkAction,
    pub state: OperationState,
    pub filter: BulkFilter,
    pub rate: Throttle,
    /// The dead letters that the filter selected when the operation started.
    pub matched: BulkCount,
    /// Dead letters that the operation has examined, selected or not.
    pub examined_count: u64,
    pub done_count: u64,
    pub reason: Option<String>,
    pub actor: String,
    /// Who stopped the operation.
    pub stopped_by: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// A running operation, and where its next step continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningBulk {
    pub operation: BulkOperation,
    /// The key of the last dead letter that the operation has examined.
    pub cursor: i64,
    /// The rate is spent until this time.
    pub spent_until: Option<Timestamp>,
}

/// A dead letter that a step has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExaminedDeadLetter {
    pub key: i64,
    pub is_selected: bool,
}

impl RunningBulk {
    /// Plans a step on the dead letters after the cursor, of which the store has read up to `rows_max`: records which are
    /// examined, and returns the keys of those on which the operation acts. The step ends early when the rate is spent.
    pub fn plan_step(&mut self, read: &[ExaminedDeadLetter], rows_max: usize, now: Timestamp) -> Vec<i64> {
        let available = self.operation.rate.available(self.spent_until, now);
        let mut keys = Vec::new();
        let mut is_last = read.len() < rows_max;
        for row in read {
            if row.is_selected && keys.len() == available {
                is_last = false;
                break;
            }
            keys.extend(row.is_selected.then_some(row.key));
            self.operation.examined_count += 1;
            self.cursor = row.key;
        }
        if is_last {
            self.operation.state = OperationState::Finished;
        }
        self.spent_until = Some(self.operation.rate.spend(self.spent_until, now, keys.len()));
        self.operation.updated_at = now;
        keys
    }

    /// Records how many events the step has changed. Another call may have changed some of the planned ones before.
    pub fn finish_step(&mut self, done: usize, now: Timestamp) -> Advance {
        self.operation.done_count += u64::try_from(done).unwrap_or(u64::MAX);
        let is_running = self.operation.state == OperationState::Running;
        let next_in = is_running.then(|| self.operation.rate.next_at(self.spent_until, now).since(now));
        Advance { done, next_in }
    }
}

/// Access to the bulk operations of a store.
#[async_trait]
pub trait BulkOperations: Send + Sync {
    /// Counts the dead letters that a filter selects. Reads only.
    async fn count(&self, filter: &BulkFilter) -> Result<BulkCount, StoreError>;

    /// Starts an operation. It selects only events that have failed until now: an event that fails again after the
    /// operation has requeued it is left alone.
    async fn start(&self, new: &NewBulkOperation<'_>) -> Result<BulkOperation, StoreError>;

    async fn get(&self, id: BulkId) -> Result<BulkOperation, StoreError>;

    /// Lists all operations, or those in one state, newest first.
    async fn list(
        &self,
        state: Option<OperationState>,
        request: &ListRequest<BulkId>,
    ) -> Result<List<BulkOperation>, StoreError>;

    /// Ends a running operation. What it has done stays done. Changes nothing if it has ended.
    async fn stop(&self, id: BulkId, actor: &str) -> Result<BulkOperation, StoreError>;

    /// Runs one step of each running operation: examines at most `rows_max` dead letters for each, in the order of their
    /// keys, and stays within its rate. Two workers may call it at the same time; each event is changed once.
    async fn advance(&self, rows_max: usize) -> Result<Advance, StoreError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_filter_selects_by_the_beginning_of_the_error() {
        let matches = |filter: &str, error: &str| ErrorFilter::parse(filter).unwrap().matches(error);
        assert!(matches("timeout", "timeout") && matches("timeout", "timeout: no answer within 30s"));
        assert!(matches("http_503", "HTTP 503: try later") && matches("http_5xx", "HTTP 503"));
        assert!(!matches("http_503", "HTTP 500") && !matches("http_4xx", "HTTP 503"));
        assert!(!matches("timeout", "timeouts") && !matches("dns", "timeout: dns"));
        for name in [
            "",
            "http_",
            "http_200",
            "http_6xx",
            "http_50",
            "http_5x",
            "http_5031",
            "Timeout",
            "manual_cancelled",
        ] {
            assert_eq!(ErrorFilter::parse(name), None, "{name}");
        }
    }

    #[test]
    fn an_error_filter_prints_as_it_is_parsed() {
        for name in ["timeout", "blocked_address", "http_404", "http_3xx"] {
            assert_eq!(ErrorFilter::parse(name).unwrap().to_string(), name);
        }
    }

    #[test]
    fn a_filter_without_a_kind_leaves_cancelled_events_alone() {
        let failed_at = Timestamp::from_secs(1_700_000_000);
        let candidate = |failure_kind| BulkCandidate {
            url: None,
            endpoint: None,
            app: None,
            event_type: "a",
            failure_kind,
            last_error: None,
            failed_at,
        };
        let any = BulkFilter::default();
        assert!(
            any.matches(&candidate(FailureKind::Gone)) && !any.matches(&candidate(FailureKind::Cancelled))
        );
        let cancelled = BulkFilter { failure_kind: Some(FailureKind::Cancelled), ..any.clone() };
        assert!(cancelled.matches(&candidate(FailureKind::Cancelled)));
        let earlier = BulkFilter { until: Some(failed_at.before(std::time::Duration::from_secs(1))), ..any };
        assert!(!earlier.matches(&candidate(FailureKind::Gone)));
    }

    fn running(rate: i64) -> RunningBulk {
        let now = Timestamp::from_secs(1_700_000_000);
        let operation = BulkOperation {
            id: BulkId(1),
            action: BulkAction::Requeue,
            state: OperationState::Running,
            filter: BulkFilter::default(),
            rate: Throttle::new(rate).unwrap(),
            matched: BulkCount::of(3),
            examined_count: 0,
            done_count: 0,
            reason: None,
            actor: "ops".to_owned(),
            stopped_by: None,
            created_at: now,
            updated_at: now,
        };
        RunningBulk { operation, cursor: 0, spent_until: None }
    }

    #[test]
    fn a_step_ends_when_the_rate_is_spent_and_the_next_one_continues_there() {
        let row = |key, is_selected| ExaminedDeadLetter { key, is_selected };
        let rows = [row(1, true), row(2, false), row(3, true), row(4, false), row(5, true)];
        let mut bulk = running(2);
        let now = bulk.operation.created_at;
        assert_eq!(bulk.plan_step(&rows, 10, now), [1, 3]);
        assert_eq!((bulk.cursor, bulk.operation.examined_count), (4, 4));
        let advance = bulk.finish_step(2, now);
        assert_eq!((advance.done, advance.next_in), (2, Some(std::time::Duration::from_millis(500))));
        let later = now.after(std::time::Duration::from_millis(500));
        assert_eq!(bulk.plan_step(&rows[4..], 10, later), [5]);
        assert_eq!(bulk.finish_step(1, later), Advance { done: 1, next_in: None });
        assert_eq!((bulk.operation.state, bulk.operation.done_count), (OperationState::Finished, 3));
    }

    #[test]
    fn a_step_that_read_all_it_may_is_not_the_last() {
        let mut bulk = running(100);
        let now = bulk.operation.created_at;
        let rows = [ExaminedDeadLetter { key: 9, is_selected: false }];
        assert_eq!(bulk.plan_step(&rows, 1, now), [0; 0]);
        assert_eq!((bulk.operation.state, bulk.cursor), (OperationState::Running, 9));
        assert_eq!(bulk.finish_step(0, now).next_in, Some(std::time::Duration::ZERO));
    }

    #[test]
    fn a_count_ends_at_its_limit() {
        assert_eq!(BulkCount::of(7), BulkCount { count: 7, is_exact: true });
        assert_eq!(BulkCount::of(BULK_COUNT_MAX + 1), BulkCount { count: BULK_COUNT_MAX, is_exact: false });
    }
}
