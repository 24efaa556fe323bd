//! Sequences of operations, by chance. The first of several choices is what a shrunk sequence settles on.

use posthaste_domain::{DeliveryStatus, ErrorClass};
use posthaste_store::CircuitState;
use proptest::collection::vec;
use proptest::option::{self, weighted};
use proptest::prelude::*;
use proptest::sample::select;

use crate::lengths::{ADVANCES, ENDED_AGO, KEEPS, KEYS, LEASES, PAUSES, REPORTS};
use crate::operation::{
    Actor, Attempt, Claim, Destination, Event, Granted, Handle, Key, NewEvent, Nth, Operation, Paged, Reply,
    Report, Request, Step, Worker,
};

pub(crate) const OPERATIONS_MAX: usize = 40;

/// Nearly all begin with an enqueue: on an empty store there is little to differ about.
pub(crate) fn sequences() -> impl Strategy<Value = Vec<Step>> {
    (weighted(0.95, step(enqueue())), vec(step(operation()), 1..OPERATIONS_MAX))
        .prop_map(|(first, rest)| first.into_iter().chain(rest).collect())
}

fn step(operation: impl Strategy<Value = Operation>) -> impl Strategy<Value = Step> {
    let handle = select(&[Handle::First, Handle::Second][..]);
    (handle, operation).prop_map(|(handle, operation)| Step { handle, operation })
}

/// What changes much comes often: events are enqueued, claimed and settled, and time passes.
fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        10 => enqueue(),
        16 => claim().prop_map(Operation::Claim),
        3 => claim_again(),
        14 => select(&ADVANCES[..]).prop_map(Operation::Advance),
        4 => (leases(), select(&LEASES[..])).prop_map(|(leases, lease)| Operation::Renew { leases, lease }),
        16 => settle(),
        3 => leases().prop_map(|leases| Operation::Release { leases }),
        5 => requeue(),
        4 => cancel(),
        3 => vec(report(), 1..=3).prop_map(Operation::ReportCircuits),
        8 => maintain(),
        3 => paged().prop_map(Operation::DeadLetters),
        3 => events(),
        1 => event().prop_map(Operation::Event),
        1 => destination().prop_map(Operation::Destination),
        2 => notices(),
    ]
}

fn enqueue() -> impl Strategy<Value = Operation> {
    vec(request(), 1..=2).prop_map(Operation::Enqueue)
}

fn request() -> impl Strategy<Value = Request> {
    (vec(new_event(), 1..=3), weighted(0.3, key())).prop_map(|(events, key)| Request { events, key })
}

fn new_event() -> impl Strategy<Value = NewEvent> {
    (known_destination(), weighted(0.2, 0..4_u8), 1..=3_u32, any::<bool>()).prop_map(
        |(destination, id, max_attempts, in_full)| NewEvent { destination, id, max_attempts, in_full },
    )
}

fn key() -> impl Strategy<Value = Key> {
    (0..2_u8, prop_oneof![4 => Just(1_u8), 1 => Just(2_u8)], select(&KEYS[..]))
        .prop_map(|(name, body, keep)| Key { name, body, keep })
}

fn claim() -> impl Strategy<Value = Claim> {
    let retries_max = prop_oneof![3 => Just(6_usize), 1 => 0..=2_usize];
    let per_destination = prop_oneof![3 => Just(6_usize), 1 => 0..=2_usize];
    let free_slots = vec((destination(), 0..=2_usize), 0..=2);
    (worker(), limit(), retries_max, per_destination, free_slots, select(&LEASES[..]), 1..=3_u32).prop_map(
        |(owner, limit, retries_max, per_destination, free_slots, lease, abandon_after)| Claim {
            owner,
            limit,
            retries_max,
            per_destination,
            free_slots,
            lease,
            abandon_after,
        },
    )
}

fn claim_again() -> impl Strategy<Value = Operation> {
    (nth(), limit()).prop_map(|(claim, limit)| Operation::ClaimAgain { claim, limit })
}

fn limit() -> impl Strategy<Value = usize> {
    prop_oneof![2 => Just(6_usize), 3 => 1..=5_usize, 1 => Just(0_usize)]
}

fn settle() -> impl Strategy<Value = Operation> {
    (worker(), vec(attempt(), 1..=4)).prop_map(|(worker, attempts)| Operation::Settle { worker, attempts })
}

fn attempt() -> impl Strategy<Value = Attempt> {
    (granted(), reply(), select(&ENDED_AGO[..])).prop_map(|(lease, reply, ended_ago)| Attempt {
        lease,
        reply,
        ended_ago,
    })
}

fn reply() -> impl Strategy<Value = Reply> {
    prop_oneof![
        4 => Just(Reply::Status(200)),
        4 => select(&[500_u16, 404][..]).prop_map(Reply::Status),
        1 => Just(Reply::Status(410)),
        1 => (select(&[503_u16, 429][..]), select(&PAUSES[..]))
            .prop_map(|(status, wait)| Reply::AskedToWait(status, wait)),
        1 => select(&[ErrorClass::Timeout, ErrorClass::Panic][..]).prop_map(Reply::Silence),
    ]
}

fn requeue() -> impl Strategy<Value = Operation> {
    let event = prop_oneof![6 => nth().prop_map(Event::Failed), 1 => event()];
    (event, actor()).prop_map(|(event, actor)| Operation::Requeue { event, actor })
}

fn cancel() -> impl Strategy<Value = Operation> {
    let reason = option::of(select(&["wrong customer", " \n ", "it's\r\n\0 \u{1f980}"][..]));
    (event(), actor(), reason).prop_map(|(event, actor, reason)| Operation::Cancel { event, actor, reason })
}

fn report() -> impl Strategy<Value = Report> {
    let state = select(&[CircuitState::Open, CircuitState::HalfOpen, CircuitState::Closed][..]);
    (worker(), destination(), state, select(&REPORTS[..])).prop_map(
        |(worker, destination, state, expires_in)| Report { worker, destination, state, expires_in },
    )
}

fn maintain() -> impl Strategy<Value = Operation> {
    (select(&KEEPS[..]), 1..=3_usize).prop_map(|(keep, rows_max)| Operation::Maintain { keep, rows_max })
}

fn events() -> impl Strategy<Value = Operation> {
    let status = select(&[DeliveryStatus::Pending, DeliveryStatus::Delivered, DeliveryStatus::Failed][..]);
    (option::of(status), weighted(0.3, destination()), paged())
        .prop_map(|(status, destination, paged)| Operation::Events { status, destination, paged })
}

fn notices() -> impl Strategy<Value = Operation> {
    (weighted(0.8, 0..50_usize), 1..=3_usize)
        .prop_map(|(after, limit)| Operation::Notices { after: after.map(Nth), limit })
}

fn paged() -> impl Strategy<Value = Paged> {
    (1..=4_i64, any::<bool>(), 1..=3_usize).prop_map(|(limit, goes_on, pages_max)| Paged {
        limit,
        goes_on,
        pages_max,
    })
}

fn leases() -> impl Strategy<Value = Vec<Granted>> {
    vec(granted(), 1..=4)
}

fn granted() -> impl Strategy<Value = Granted> {
    prop_oneof![2 => nth().prop_map(Granted::Open), 1 => nth().prop_map(Granted::Any)]
}

/// Mostly of the latest, which is where things are still open.
fn nth() -> impl Strategy<Value = Nth> {
    prop_oneof![4 => 0..6_usize, 1 => 0..100_usize].prop_map(Nth)
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![8 => nth().prop_map(Event::Any), 2 => nth().prop_map(Event::Failed), 1 => Just(Event::Unknown)]
}

fn worker() -> impl Strategy<Value = Worker> {
    select(&[Worker::A, Worker::B][..])
}

fn actor() -> impl Strategy<Value = Actor> {
    select(&[Actor::Ann, Actor::Bob][..])
}

fn known_destination() -> impl Strategy<Value = Destination> {
    select(&[Destination::A, Destination::B, Destination::C][..])
}

fn destination() -> impl Strategy<Value = Destination> {
    prop_oneof![9 => known_destination(), 1 => Just(Destination::Unknown)]
}
