//! Calls on bulk operations as plain data.

use std::time::Duration;

use posthaste_domain::{FailureKind, Throttle};
use posthaste_store::{BulkAction, ErrorFilter, OperationState};

use crate::operation::{Actor, Destination, RecencyIndex};
use crate::registry::FromSpec;

/// A call on the bulk operations of the store.
#[derive(Debug, Clone)]
pub(crate) enum BulkCall {
    /// Counts the dead letters of a filter.
    Count(FilterSpec),
    /// Counts the dead letters of a filter, then starts an operation on them.
    Start(StartSpec),
    /// Runs one step of every running operation.
    Advance {
        rows_max: usize,
    },
    /// Stops an operation, running or ended.
    Stop {
        bulk: RecencyIndex,
        actor: Actor,
    },
    /// Reads one operation.
    Get(RecencyIndex),
    List {
        state: Option<OperationState>,
        from: FromSpec,
        limit: i64,
    },
}

/// A bulk operation to start.
#[derive(Debug, Clone)]
pub(crate) struct StartSpec {
    pub(crate) action: BulkAction,
    pub(crate) filter: FilterSpec,
    pub(crate) rate: Throttle,
    pub(crate) reason: Option<&'static str>,
    pub(crate) actor: Actor,
    /// The name of the request, out of a few, so that a request is sometimes repeated.
    pub(crate) key: Option<&'static str>,
}

/// A filter of dead letters. Times are durations before now.
#[derive(Debug, Clone, Default)]
pub(crate) struct FilterSpec {
    pub(crate) destination: Option<Destination>,
    /// One of all destinations, including removed ones. One of a URL selects nothing.
    pub(crate) endpoint: Option<RecencyIndex>,
    /// One of all applications, including removed ones.
    pub(crate) app: Option<RecencyIndex>,
    pub(crate) event_type: Option<&'static str>,
    pub(crate) failure_kind: Option<FailureKind>,
    pub(crate) error: Option<ErrorFilter>,
    pub(crate) since_ago: Option<Duration>,
    pub(crate) until_ago: Option<Duration>,
}
