//! Intervals: hosts that compete for places, and hosts that stop answering.

use super::*;
use crate::slots::INTERVALS_UNTIL_OLD;

/// Answers one request of each of these hosts, and lets more events of each wait than there are places.
fn competing(table: &mut Table<u32>, hosts: &[String]) -> Vec<Started<u32>> {
    for (id, host) in (1..).zip(hosts) {
        let known = add(table, id, host, 0).unwrap();
        answer(table, &known, Answer::Good, FAST);
    }
    let rounds = 0..u32::try_from(table.limits.in_flight).unwrap();
    let events = rounds.flat_map(|round| (1..).zip(hosts).map(move |(id, host)| (id, host, round)));
    let available = table.limits.total - table.total();
    events.take(available).filter_map(|(id, host, round)| add(table, id, host, round)).collect()
}

fn numbered_hosts(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("host-{number}")).collect()
}

#[test]
fn hosts_that_compete_have_equal_shares_and_a_host_that_is_left_gets_more() {
    let mut table = table(|settings| {
        (settings.concurrency, settings.per_destination, settings.window_start) = (40, 40, 40);
    });
    let hosts = numbered_hosts(7);
    let sent = competing(&mut table, &hosts);
    let of = |table: &Table<u32>, host: &str| table.hosts[table.hosts.number(host).unwrap()].in_flight;
    assert!(hosts.iter().all(|host| of(&table, host) <= 6), "a seventh of the places, rounded up");
    for (id, host) in (2..).zip(&hosts[1..]) {
        table.stop_waiting(DestinationId(id), 0);
        let number = table.hosts.number(host).unwrap();
        for sent in sent.iter().filter(|sent| sent.usage.host == number) {
            answer(&mut table, sent, Answer::Good, FAST);
        }
    }
    assert!(of(&table, "host-0") <= 6, "the others competed a moment ago");
    assert!(table.begin_interval().started.is_empty());
    let started = table.begin_interval().started.len();
    assert!(started > 10 && table.waiting() == 0, "{started} have started");
}

/// Lets so many intervals pass that every request in flight is old. Returns what follows from them.
fn let_requests_age(table: &mut Table<u32>) -> (Vec<Started<u32>>, Vec<u32>) {
    let intervals = (0..=INTERVALS_UNTIL_OLD).map(|_| table.begin_interval());
    let (started, unsent): (Vec<_>, Vec<_>) = intervals.map(|after| (after.started, after.unsent)).unzip();
    (started.into_iter().flatten().collect(), unsent.into_iter().flatten().collect())
}

/// Returns a table of 40 places in which this many hosts hold all places but the five for hosts without a request in flight, and
/// have more events waiting.
fn filled(hosts: usize) -> (Table<u32>, Vec<Started<u32>>) {
    let mut table = table(|settings| {
        (settings.concurrency, settings.per_destination, settings.window_start) = (40, 40, 40);
    });
    make_known(&mut table, 50, "other");
    let sent = competing(&mut table, &numbered_hosts(hosts));
    assert_eq!((sent.len(), table.in_flight(), table.is_full()), (35, 35, true));
    (table, sent)
}

/// Sends a request to a host, and answers it.
fn make_known(table: &mut Table<u32>, destination: i64, host: &str) {
    let known = add(table, destination, host, 0).expect("a place is free");
    answer(table, &known, Answer::Good, FAST);
}

#[test]
fn hosts_that_stop_answering_together_are_slow_and_their_waiting_events_go_back() {
    let (mut table, _sent) = filled(20);
    let (started, unsent) = let_requests_age(&mut table);
    assert_eq!((started.len(), unsent.len(), table.total()), (0, 85, 35));
    let receiver = Receiver { destination: DestinationId(1), host: "host-0", is_failing: false };
    assert_eq!(table.slots_of(receiver).pace, Pace::Slow);
    assert!(!is_claimable(&table, receiver), "old requests use all slots of slow hosts");
    assert!(!table.known().contains(&DestinationId(1)));
}

#[test]
fn a_host_that_goes_on_answering_is_not_delayed_by_those_that_have_stopped() {
    let (mut table, _sent) = filled(20);
    for number in 0..40 {
        let request = add(&mut table, 50, "other", number).expect("it has a place in every interval");
        answer(&mut table, &request, Answer::Good, FAST);
        table.begin_interval();
    }
    // Its largest burst uses what the requests to the others do not count for.
    let burst = (0..20).filter_map(|number| add(&mut table, 50, "other", number)).count();
    assert!((5..=10).contains(&burst), "{burst} requests of a burst have started");
    assert!(table.in_flight() <= 45);
}

#[test]
fn events_of_hosts_that_have_few_are_claimed_although_others_hold_all_slots() {
    let (mut table, _sent) = filled(3);
    let slots = |table: &Table<u32>, id, host| {
        table.slots_of(Receiver { destination: DestinationId(id), host, is_failing: false })
    };
    assert_eq!((table.available(), table.available_by_pace().available(Pace::Prompt)), (10, 10));
    assert_eq!((slots(&table, 1, "host-0").host, slots(&table, 60, "new").host), (0, 0));
    assert_eq!(slots(&table, 50, "other").host, 2);
    assert_eq!(table.known(), [DestinationId(50)]);
    let request = add(&mut table, 50, "other", 0).expect("a place is kept for it");
    assert_eq!(slots(&table, 50, "other").host, 1);
    answer(&mut table, &request, Answer::Good, FAST);
    assert_eq!(slots(&table, 50, "other").host, 2);
}

#[test]
fn a_host_that_answered_long_ago_gets_one_place_until_it_answers_again() {
    let (mut table, _sent) = filled(20);
    let_requests_age(&mut table);
    let first = add(&mut table, 50, "other", 0).expect("a place is kept for its first request");
    assert!(add(&mut table, 50, "other", 1).is_none(), "one request shows whether it still answers");
    let next = answer(&mut table, &first, Answer::Good, FAST);
    assert_eq!(next.len(), 1);
    assert!(add(&mut table, 50, "other", 2).is_some(), "it does");
}

#[test]
fn new_hosts_leave_places_to_a_host_that_has_answered_lately() {
    let (mut table, _sent) = filled(20);
    let new = (60..80).filter_map(|id| add(&mut table, id, &format!("new-{id}"), 0)).count();
    assert_eq!(new, 3, "of the five places for first requests");
    assert!(add(&mut table, 50, "other", 0).is_some());
}

#[test]
fn all_counts_are_zero_when_requests_have_ended_that_were_old() {
    let (mut table, mut sent) = filled(20);
    sent.extend(let_requests_age(&mut table).0);
    while let Some(request) = sent.pop() {
        sent.extend(answer(&mut table, &request, Answer::Missing, FAST));
    }
    assert_eq!((table.total(), table.in_flight(), table.ages.old()), (0, 0, 0));
    assert!(table.by_pace.values().all(|used| *used == 0), "{:?}", table.by_pace);
}

#[test]
fn a_host_that_answers_some_requests_is_not_slow() {
    let mut table = table(|_| {});
    let hanging: Vec<_> = (0..2).map(|n| add(&mut table, 1, "h", n).unwrap()).collect();
    for _ in 0..=INTERVALS_UNTIL_OLD {
        make_known(&mut table, 2, "h");
        table.begin_interval();
    }
    assert_eq!(table.ages.old(), 2);
    let receiver = Receiver { destination: DestinationId(2), host: "h", is_failing: false };
    assert_eq!(table.slots_of(receiver).pace, Pace::Prompt);
    answer(&mut table, &hanging[0], Answer::Missing, FAST);
    assert_eq!(table.ages.old(), 1);
}

#[test]
fn a_place_that_is_reserved_while_the_store_is_slow_does_not_age() {
    let mut table = caught_up(&[1], |_| {});
    let mut reserved = reserve(&mut table, &[1]).unwrap();
    let_requests_age(&mut table);
    assert_eq!(table.ages.old(), 0);
    table.start_reserved(&mut reserved[0]);
    let_requests_age(&mut table);
    assert_eq!(table.ages.old(), 1);
    table.end_all(&reserved);
    assert_eq!((table.ages.old(), table.total(), table.in_flight()), (0, 0, 0));
}

proptest! {
    /// While hosts compete, bursts do not move from host to host: the largest numbers of requests that each host ever had in
    /// flight, which are the connections that it opens, are at most twice the places together, rounded up for each host.
    #[test]
    fn hosts_that_compete_open_few_connections(
        count in 2..60_usize,
        concurrency in 30..100_usize,
        picks in prop::collection::vec((0..1_000_usize, 0..1_000_usize), 2_000..3_000),
    ) {
        let mut table = table(|settings| settings.concurrency = concurrency);
        let hosts = numbered_hosts(count);
        let mut sent = competing(&mut table, &hosts);
        let mut most = vec![0; count];
        for (step, (pick, ended)) in picks.into_iter().enumerate() {
            if step % 50 == 0 {
                sent.extend(table.begin_interval().started);
            }
            // Claims are uneven: a host may get many events at once, and then none for a while.
            let id = pick % count;
            for _ in 0..pick % 20 {
                if !table.is_full() {
                    sent.extend(add(&mut table, i64::try_from(id + 1).unwrap(), &hosts[id], 0));
                }
            }
            if !sent.is_empty() {
                let request = sent.swap_remove(ended % sent.len());
                sent.extend(answer(&mut table, &request, Answer::Good, FAST));
            }
            for (most, host) in most.iter_mut().zip(&hosts) {
                *most = table.hosts[table.hosts.number(host).unwrap()].in_flight.max(*most);
            }
        }
        let opened: usize = most.iter().sum();
        prop_assert!(opened <= 2 * concurrency + count, "{opened} for {concurrency} places and {count} hosts");
    }
}
