//! Generators of reports of activity.

use std::collections::BTreeMap;
use std::time::Duration;

use posthaste_domain::{DestinationId, LatencyHistogram};
use posthaste_store::{ActivityCounts, ReceiverActivity};
use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::select;

use super::{ActivityCall, ReportSpec, SequenceChoice};
use crate::durations::RUNNING_TIMES;
use crate::generate::worker;
use crate::operation::Operation;

/// Generates a read of the history, or a few reports.
pub(crate) fn activity_calls() -> impl Strategy<Value = Vec<Operation>> {
    let on_activity = |call| vec![Operation::Activity(call)];
    prop_oneof![
        1 => Just(ActivityCall::Read).prop_map(on_activity),
        6 => vec(report().prop_map(|spec| Operation::Activity(ActivityCall::Report(spec))), 1..=3),
    ]
}

fn report() -> impl Strategy<Value = ReportSpec> {
    let sequence = prop_oneof![
        3 => Just(SequenceChoice::Next),
        1 => Just(SequenceChoice::Repeated),
        1 => Just(SequenceChoice::Older),
    ];
    let state = (select(&RUNNING_TIMES[..]), 0..5_u64, weighted(0.15, Just(())), receivers());
    (0..2_u8, worker(), sequence, state, counts()).prop_map(
        |(process, worker, sequence, (running_for, in_flight, last, receivers), counts)| ReportSpec {
            process,
            worker,
            sequence,
            running_for,
            in_flight,
            is_last: last.is_some(),
            counts,
            receivers,
        },
    )
}

/// Generates what a worker knows of some of the destinations 1 to 4.
fn receivers() -> impl Strategy<Value = Vec<ReceiverActivity>> {
    let receiver = (1..=4_i64, 1..=20_u64, 0..200_u64, 0..200_u64, 0..5_000_000_u64);
    vec(receiver, 0..=3).prop_map(|receivers| {
        let receivers = receivers.into_iter().map(|(id, window, requests, failures, latency_us)| {
            let (destination, latency) = (DestinationId(id), Duration::from_micros(latency_us));
            (
                id,
                ReceiverActivity { destination, window, requests, failures: failures.min(requests), latency },
            )
        });
        receivers.collect::<BTreeMap<_, _>>().into_values().collect()
    })
}

fn counts() -> impl Strategy<Value = ActivityCounts> {
    let duration = select(&[0_u64, 1, 40, 7_000, 200_000][..]).prop_map(Duration::from_millis);
    (0..4_u64, 0..3_u64, 0..3_u64, vec(duration, 0..=4)).prop_map(
        |(delivered, retried, failed, durations)| {
            let mut latency = LatencyHistogram::default();
            durations.into_iter().for_each(|duration| latency.record(duration));
            ActivityCounts { delivered, retried, failed, latency }
        },
    )
}
