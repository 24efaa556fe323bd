//! Generators of calls on bulk operations.

use posthaste_domain::{FailureKind, Throttle};
use posthaste_store::{BulkAction, ErrorFilter, OperationState};
use proptest::collection::vec;
use proptest::option::{self, weighted};
use proptest::prelude::*;
use proptest::sample::select;

use super::operation::{BulkCall, FilterSpec, StartSpec};
use crate::durations::{ADVANCES, PAST_TIMES};
use crate::generate::{actor, destination, failures, reason, recency_index};
use crate::operation::Operation;
use crate::registry::{EVENT_TYPES, from};

/// Generates a call on bulk operations, or an operation with its first steps, often on events that have just failed. Time passes
/// between some of the steps, so that the rate allows more.
pub(crate) fn bulk_calls() -> impl Strategy<Value = Vec<Operation>> {
    let step = || prop_oneof![3 => advance().prop_map(Operation::Bulk), 1 => select(&ADVANCES[..]).prop_map(Operation::Advance)];
    let operation = (weighted(0.7, failures()), start(), vec(step(), 0..=4));
    prop_oneof![
        3 => operation.prop_map(|(failures, start, steps)| {
            failures.into_iter().flatten().chain([Operation::Bulk(start)]).chain(steps).collect()
        }),
        4 => call().prop_map(|call| vec![Operation::Bulk(call)]),
    ]
}

fn call() -> impl Strategy<Value = BulkCall> {
    let state = select(OperationState::ALL);
    prop_oneof![
        4 => advance(),
        2 => filter().prop_map(BulkCall::Count),
        1 => (recency_index(), actor()).prop_map(|(bulk, actor)| BulkCall::Stop { bulk, actor }),
        1 => recency_index().prop_map(BulkCall::Get),
        1 => (option::of(state), from(), 1..=3_i64).prop_map(|(state, from, limit)| BulkCall::List { state, from, limit }),
    ]
}

fn advance() -> impl Strategy<Value = BulkCall> {
    (1..=4_usize).prop_map(|rows_max| BulkCall::Advance { rows_max })
}

fn start() -> impl Strategy<Value = BulkCall> {
    let action = prop_oneof![
        3 => Just(BulkAction::Requeue),
        1 => Just(BulkAction::Cancel),
        1 => Just(BulkAction::Discard),
    ];
    let rate = select(&[1_000_i64, 2, 1][..]).prop_map(|rate| Throttle::new(rate).expect("a valid rate"));
    let key = weighted(0.3, select(&["monday", "tuesday"][..]));
    (action, filter(), rate, reason(), actor(), key).prop_map(|(action, filter, rate, reason, actor, key)| {
        BulkCall::Start(StartSpec { action, filter, rate, reason, actor, key })
    })
}

/// Generates a filter with few conditions, because most sequences have few dead letters.
fn filter() -> impl Strategy<Value = FilterSpec> {
    let ago = || weighted(0.15, select(&PAST_TIMES[..]));
    let error = select(&["http_404", "http_5xx", "http_410", "timeout"][..])
        .prop_map(|name| ErrorFilter::parse(name).expect("a valid filter"));
    (
        weighted(0.15, destination()),
        weighted(0.1, recency_index()),
        weighted(0.1, recency_index()),
        weighted(0.1, select(&EVENT_TYPES[..])),
        weighted(0.15, select(FailureKind::ALL)),
        weighted(0.15, error),
        (ago(), ago()),
    )
        .prop_map(
            |(destination, endpoint, app, event_type, failure_kind, error, (since_ago, until_ago))| {
                FilterSpec {
                    destination,
                    endpoint,
                    app,
                    event_type,
                    failure_kind,
                    error,
                    since_ago,
                    until_ago,
                }
            },
        )
}
