//! Generators of random sequences of operations. Of several choices, the first is the one that shrinking prefers.

use std::time::Duration;

use posthaste_domain::{DeliveryStatus, ErrorClass};
use posthaste_store::{DestinationState, Pace};
use proptest::collection::vec;
use proptest::option::{self, weighted};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use crate::durations::{
    ADVANCES, CIRCUIT_TIMES, DEAD_LETTER_RETENTIONS, ENDED_AGO, EXPIRIES, KEY_LIFETIMES, LEASE_DURATIONS,
    PAUSES, REPORT_LIFETIMES, RETENTIONS, RETRY_AFTER_DELAYS,
};
use crate::operation::{
    Actor, AttemptSpec, CircuitReportSpec, ClaimSpec, Destination, DestinationChoice, EventChoice, EventSpec,
    Handle, KeySpec, LeaseChoice, LikeField, Likeness, Operation, Paging, ReceiverReply, RecencyIndex,
    RequestSpec, Step, Worker,
};

use crate::activity::activity_calls;
use crate::bulk::bulk_calls;
use crate::registry::{RegistryOperation, registry_calls, setup};

/// Upper bound of a sequence's length.
pub(crate) const OPERATIONS_MAX: usize = 40;
/// Upper bound of the groups of calls of a sequence on the registry.
const GROUPS_MAX: usize = 18;

/// Generates sequences of direct events alone, or of all calls. Of the latter, half call the registry.
pub(crate) fn sequences(only_direct_events: bool) -> BoxedStrategy<Vec<Step>> {
    if only_direct_events {
        sequences_of_groups(vec(operation(), 1)).boxed()
    } else {
        let group = prop_oneof![
            20 => vec(operation(), 1),
            2 => bulk_calls(),
            1 => activity_calls(),
        ];
        prop_oneof![1 => sequences_of_groups(group), 1 => registry_sequences()].boxed()
    }
}

/// Generates sequences that begin with an application and its endpoints. The other calls come in short groups, because a message
/// matters only if it is also claimed and settled.
fn registry_sequences() -> impl Strategy<Value = Vec<Step>> {
    let on_registry = |calls: Vec<RegistryOperation>| calls.into_iter().map(Operation::Registry).collect();
    let group = prop_oneof![
        8 => registry_calls().prop_map(on_registry),
        5 => (delivery_claim(), weighted(0.9, settle())).prop_map(|(claim, settle)| {
            [claim].into_iter().chain(settle).collect()
        }),
        4 => vec(operation(), 1),
        1 => bulk_calls(),
    ];
    let setup = setup().prop_map(on_registry);
    (setup, vec(group, 1..GROUPS_MAX), handles()).prop_map(|(setup, groups, handles)| {
        let operations = setup.into_iter().chain(groups.into_iter().flatten());
        steps(operations, handles)
    })
}

/// Generates a claim that takes as many events as it can.
fn delivery_claim() -> impl Strategy<Value = Operation> {
    claim().prop_map(|claim| {
        Operation::Claim(ClaimSpec {
            limit: 6,
            retries_max: 6,
            per_destination: 6,
            destination_slots: Vec::new(),
            per_host: 6,
            pace_slots: [6; Pace::ALL.len()],
            payload_bytes_max: usize::MAX,
            event_payload_bytes_max: None,
            ..claim
        })
    })
}

/// Generates sequences of groups of operations. Nearly all begin with an enqueue, because most operations do nothing on an empty
/// store.
fn sequences_of_groups(group: impl Strategy<Value = Vec<Operation>>) -> impl Strategy<Value = Vec<Step>> {
    (weighted(0.95, enqueue()), vec(group, 1..OPERATIONS_MAX), handles()).prop_map(
        |(first, groups, handles)| steps(first.into_iter().chain(groups.into_iter().flatten()), handles),
    )
}

/// Generates the handle of each operation of a sequence.
fn handles() -> impl Strategy<Value = Vec<Handle>> {
    vec(select(&[Handle::First, Handle::Second][..]), OPERATIONS_MAX)
}

/// Gives each operation a handle. A sequence ends with the handles.
fn steps(operations: impl Iterator<Item = Operation>, handles: Vec<Handle>) -> Vec<Step> {
    operations.zip(handles).map(|(operation, handle)| Step { handle, operation }).collect()
}

/// Generates an operation on direct events. Those that change the most are the most frequent: enqueue, claim, settle, advance of time.
fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        10 => enqueue(),
        16 => claim().prop_map(Operation::Claim),
        3 => repeat_claim(),
        14 => select(&ADVANCES[..]).prop_map(Operation::Advance),
        4 => (leases(), select(&LEASE_DURATIONS[..])).prop_map(|(leases, lease)| Operation::Renew { leases, lease }),
        16 => settle(),
        3 => leases().prop_map(|leases| Operation::Release { leases }),
        4 => lease_choice().prop_map(|lease| Operation::ReadPayload { lease }),
        5 => requeue(),
        3 => replay(),
        1 => view_content(),
        4 => cancel(),
        3 => vec(report(), 1..=3).prop_map(Operation::ReportCircuits),
        2 => pause(),
        3 => resume(),
        3 => probe(),
        2 => destinations(),
        3 => expire(),
        8 => maintain(),
        3 => dead_letters(),
        3 => events(),
        1 => event().prop_map(Operation::Event),
        1 => destination_choice().prop_map(Operation::Destination),
        2 => notices(),
        3 => discard(),
    ]
}

fn enqueue() -> impl Strategy<Value = Operation> {
    vec(request(), 1..=2).prop_map(Operation::Enqueue)
}

fn request() -> impl Strategy<Value = RequestSpec> {
    let stored_by = weighted(0.5, select(&["orders", "invoices"][..]));
    let lease = weighted(0.2, (worker(), select(&LEASE_DURATIONS[..])));
    (vec(new_event(), 1..=3), weighted(0.3, key()), stored_by, lease)
        .prop_map(|(events, key, stored_by, lease)| RequestSpec { events, key, stored_by, lease })
}

fn new_event() -> impl Strategy<Value = EventSpec> {
    let padding_bytes = prop_oneof![4 => Just(0_usize), 1 => Just(40_usize), 1 => Just(200_usize)];
    (known_destination(), weighted(0.2, 0..4_u8), 1..=3_u32, any::<bool>(), padding_bytes).prop_map(
        |(destination, id, max_attempts, all_fields, padding_bytes)| EventSpec {
            destination,
            id,
            max_attempts,
            all_fields,
            padding_bytes,
        },
    )
}

fn key() -> impl Strategy<Value = KeySpec> {
    (0..2_u8, prop_oneof![4 => Just(1_u8), 1 => Just(2_u8)], select(&KEY_LIFETIMES[..]))
        .prop_map(|(name, body, keep)| KeySpec { name, body, keep })
}

fn claim() -> impl Strategy<Value = ClaimSpec> {
    let retries_max = prop_oneof![3 => Just(6_usize), 1 => 0..=2_usize];
    let per_destination = prop_oneof![3 => Just(6_usize), 1 => 0..=2_usize];
    let destination_slots = vec((destination_choice(), 0..=2_usize), 0..=2);
    (
        worker(),
        limit(),
        retries_max,
        (per_destination, destination_slots),
        host_slots(),
        prop_oneof![4 => Just(usize::MAX), 1 => payload_bytes()],
        (weighted(0.1, payload_bytes()), prop_oneof![1 => Just(usize::MAX), 1 => payload_bytes()]),
        select(&LEASE_DURATIONS[..]),
        1..=3_u32,
    )
        .prop_map(
            |(
                owner,
                limit,
                retries_max,
                (per_destination, destination_slots),
                HostSlots { per_host, paces, pace_slots, known },
                payload_bytes_max,
                (event_payload_bytes_max, inline_payload_bytes_max),
                lease,
                abandon_after,
            )| {
                ClaimSpec {
                    owner,
                    limit,
                    retries_max,
                    per_destination,
                    destination_slots,
                    per_host,
                    paces,
                    pace_slots,
                    known,
                    payload_bytes_max,
                    event_payload_bytes_max,
                    inline_payload_bytes_max,
                    lease,
                    abandon_after,
                }
            },
        )
}

/// The part of a claim request that concerns hosts and known destinations.
#[derive(Debug, Clone)]
struct HostSlots {
    per_host: usize,
    paces: Vec<(Destination, Pace)>,
    pace_slots: [usize; Pace::ALL.len()],
    known: Vec<DestinationChoice>,
}

fn host_slots() -> impl Strategy<Value = HostSlots> {
    let pace_slots = || prop_oneof![12 => Just(6_usize), 1 => 0..=3_usize];
    (
        prop_oneof![6 => Just(6_usize), 1 => 0..=3_usize],
        vec((destination(), select(&Pace::ALL[..])), 0..=2),
        [pace_slots(), pace_slots(), pace_slots(), pace_slots()],
        vec(destination_choice(), 0..=2),
    )
        .prop_map(|(per_host, paces, pace_slots, known)| HostSlots {
            per_host,
            paces,
            pace_slots,
            known,
        })
}

fn repeat_claim() -> impl Strategy<Value = Operation> {
    (recency_index(), limit(), weighted(0.3, payload_bytes())).prop_map(
        |(claim, limit, payload_bytes_max)| Operation::RepeatClaim { claim, limit, payload_bytes_max },
    )
}

/// Generates a limit that some payloads or pairs of payloads exceed.
fn payload_bytes() -> impl Strategy<Value = usize> {
    select(&[0_usize, 15, 31, 60, 100, 300][..])
}

fn limit() -> impl Strategy<Value = usize> {
    prop_oneof![2 => Just(6_usize), 3 => 1..=5_usize, 1 => Just(0_usize)]
}

fn settle() -> impl Strategy<Value = Operation> {
    (worker(), vec(attempt(), 1..=4)).prop_map(|(worker, attempts)| Operation::Settle { worker, attempts })
}

/// Generates a claim, and a settlement that dead-letters some of its events at once.
pub(crate) fn failures() -> impl Strategy<Value = Vec<Operation>> {
    let gone = recency_index().prop_map(|index| AttemptSpec {
        lease: LeaseChoice::Unsettled(index),
        reply: ReceiverReply::Status(410),
        ended_ago: Duration::ZERO,
    });
    (delivery_claim(), worker(), vec(gone, 2..=6))
        .prop_map(|(claim, worker, attempts)| vec![claim, Operation::Settle { worker, attempts }])
}

fn attempt() -> impl Strategy<Value = AttemptSpec> {
    (lease_choice(), reply(), select(&ENDED_AGO[..])).prop_map(|(lease, reply, ended_ago)| AttemptSpec {
        lease,
        reply,
        ended_ago,
    })
}

fn reply() -> impl Strategy<Value = ReceiverReply> {
    prop_oneof![
        4 => Just(ReceiverReply::Status(200)),
        4 => select(&[500_u16, 404][..]).prop_map(ReceiverReply::Status),
        1 => Just(ReceiverReply::Status(410)),
        1 => (select(&[503_u16, 429][..]), select(&RETRY_AFTER_DELAYS[..]))
            .prop_map(|(status, wait)| ReceiverReply::RetryAfter(status, wait)),
        1 => select(&[ErrorClass::Timeout, ErrorClass::Panic][..]).prop_map(ReceiverReply::NoResponse),
    ]
}

fn requeue() -> impl Strategy<Value = Operation> {
    let event = prop_oneof![6 => recency_index().prop_map(EventChoice::Failed), 1 => event()];
    (event, actor()).prop_map(|(event, actor)| Operation::Requeue { event, actor })
}

fn replay() -> impl Strategy<Value = Operation> {
    (event(), actor()).prop_map(|(event, actor)| Operation::Replay { event, actor })
}

fn view_content() -> impl Strategy<Value = Operation> {
    (event(), actor(), 0..30_usize).prop_map(|(event, actor, bytes_max)| Operation::ViewContent {
        event,
        actor,
        bytes_max,
    })
}

fn cancel() -> impl Strategy<Value = Operation> {
    (event(), actor(), reason()).prop_map(|(event, actor, reason)| Operation::Cancel { event, actor, reason })
}

fn discard() -> impl Strategy<Value = Operation> {
    let event = prop_oneof![6 => recency_index().prop_map(EventChoice::Failed), 1 => event()];
    (event, actor(), reason()).prop_map(|(event, actor, reason)| Operation::Discard { event, actor, reason })
}

pub(crate) fn reason() -> impl Strategy<Value = Option<&'static str>> {
    option::of(select(&["wrong customer", " \n ", "it's\r\n\0 \u{1f980}"][..]))
}

fn expire() -> impl Strategy<Value = Operation> {
    (select(&EXPIRIES[..]), 1..=3_usize)
        .prop_map(|(expire_after, rows_max)| Operation::Expire { expire_after, rows_max })
}

fn report() -> impl Strategy<Value = CircuitReportSpec> {
    let times = || select(&CIRCUIT_TIMES[..]);
    (worker(), destination_choice(), weighted(0.7, Just(())), times(), times(), select(&REPORT_LIFETIMES[..]))
        .prop_map(|(worker, destination, open, open_for, next_probe_in, expires_in)| CircuitReportSpec {
            worker,
            destination,
            is_open: open.is_some(),
            open_for,
            next_probe_in,
            expires_in,
        })
}

fn pause() -> impl Strategy<Value = Operation> {
    let reason = option::of(select(&["new disks", " \n ", "it's\r\n\0 \u{1f980}"][..]));
    (destination_choice(), actor(), select(&PAUSES[..]), reason).prop_map(
        |(destination, actor, duration, reason)| Operation::PauseDestination {
            destination,
            actor,
            duration,
            reason,
        },
    )
}

fn resume() -> impl Strategy<Value = Operation> {
    (destination_choice(), actor())
        .prop_map(|(destination, actor)| Operation::ResumeDestination { destination, actor })
}

fn probe() -> impl Strategy<Value = Operation> {
    (destination_choice(), actor())
        .prop_map(|(destination, actor)| Operation::ProbeDestination { destination, actor })
}

fn destinations() -> impl Strategy<Value = Operation> {
    (option::of(select(DestinationState::ALL)), 1..=4_i64)
        .prop_map(|(state, limit)| Operation::Destinations { state, limit })
}

fn maintain() -> impl Strategy<Value = Operation> {
    let keep_dead_letters = weighted(0.3, select(&DEAD_LETTER_RETENTIONS[..]));
    (select(&RETENTIONS[..]), keep_dead_letters, 1..=3_usize).prop_map(
        |(keep, keep_dead_letters, rows_max)| Operation::Maintain { keep, keep_dead_letters, rows_max },
    )
}

fn events() -> impl Strategy<Value = Operation> {
    let status = select(&[DeliveryStatus::Pending, DeliveryStatus::Delivered, DeliveryStatus::Failed][..]);
    (option::of(status), weighted(0.3, destination_choice()), weighted(0.5, likeness()), paging()).prop_map(
        |(status, destination, like, paging)| Operation::Events { status, destination, like, paging },
    )
}

fn notices() -> impl Strategy<Value = Operation> {
    (weighted(0.8, 0..50_usize), 1..=3_usize)
        .prop_map(|(after, limit)| Operation::Notices { after: after.map(RecencyIndex), limit })
}

fn dead_letters() -> impl Strategy<Value = Operation> {
    (any::<bool>(), weighted(0.5, likeness()), paging())
        .prop_map(|(with_cancelled, like, paging)| Operation::DeadLetters { with_cancelled, like, paging })
}

fn likeness() -> impl Strategy<Value = Likeness> {
    use LikeField::{
        App, Error, EventId, EventType, FailureKind, PaymentRequest, Session, Since, Until, Webhook,
    };
    let fields =
        [FailureKind, Error, App, EventType, PaymentRequest, Session, Webhook, Since, Until, EventId];
    (recency_index(), subsequence(fields.to_vec(), 1..=3))
        .prop_map(|(event, fields)| Likeness { event, fields })
}

fn paging() -> impl Strategy<Value = Paging> {
    (1..=4_i64, any::<bool>(), 1..=3_usize).prop_map(|(limit, continues, pages_max)| Paging {
        limit,
        continues,
        pages_max,
    })
}

fn leases() -> impl Strategy<Value = Vec<LeaseChoice>> {
    vec(lease_choice(), 1..=4)
}

fn lease_choice() -> impl Strategy<Value = LeaseChoice> {
    prop_oneof![2 => recency_index().prop_map(LeaseChoice::Unsettled), 1 => recency_index().prop_map(LeaseChoice::Any)]
}

/// Prefers the latest items, because most of their leases are not settled yet.
pub(crate) fn recency_index() -> impl Strategy<Value = RecencyIndex> {
    prop_oneof![4 => 0..6_usize, 1 => 0..100_usize].prop_map(RecencyIndex)
}

fn event() -> impl Strategy<Value = EventChoice> {
    prop_oneof![8 => recency_index().prop_map(EventChoice::Any), 2 => recency_index().prop_map(EventChoice::Failed), 1 => Just(EventChoice::Unknown)]
}

pub(crate) fn worker() -> impl Strategy<Value = Worker> {
    select(&[Worker::A, Worker::B][..])
}

pub(crate) fn actor() -> impl Strategy<Value = Actor> {
    select(&[Actor::Ann, Actor::Bob][..])
}

fn known_destination() -> impl Strategy<Value = Destination> {
    select(&[Destination::A, Destination::B, Destination::C][..])
}

pub(crate) fn destination() -> impl Strategy<Value = Destination> {
    prop_oneof![9 => known_destination(), 1 => Just(Destination::Unknown)]
}

pub(crate) fn destination_choice() -> impl Strategy<Value = DestinationChoice> {
    prop_oneof![
        2 => destination().prop_map(DestinationChoice::Url),
        1 => recency_index().prop_map(DestinationChoice::Endpoint),
    ]
}
