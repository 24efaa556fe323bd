mod intervals;

use std::collections::VecDeque;

use super::*;
use crate::settings::Settings;
use posthaste_domain::WorkerId;
use proptest::prelude::*;

const NOW: Duration = Duration::from_secs(100);
const FAST: Duration = Duration::from_millis(5);

fn table(change: impl FnOnce(&mut Settings)) -> Table<u32> {
    let mut settings = Settings::new(WorkerId::new("w").unwrap());
    change(&mut settings);
    Table::new(Limits::new(&settings))
}

fn url(destination: i64) -> &'static str {
    ["/0", "/1", "/2", "/3", "/4", "/5", "/6", "/7"][usize::try_from(destination % 8).unwrap()]
}

fn event(table: &mut Table<u32>, destination: i64, host: &str) -> NewDelivery<'static> {
    let host = table.host(host, false, NOW);
    let (destination, url) = (DestinationId(destination), url(destination));
    NewDelivery { destination, url, host, is_retry: false, payload_bytes: 100, is_unread: false }
}

/// Returns the entry of the host "h".
fn host_entry(table: &mut Table<u32>) -> &mut HostEntry {
    let number = table.hosts.number("h").unwrap();
    table.hosts.get_mut(number).unwrap()
}

fn add(table: &mut Table<u32>, destination: i64, host: &str, number: u32) -> Option<Started<u32>> {
    let usage = {
        let event = event(table, destination, host);
        table.use_slot(event, NOW)
    };
    table.add(usage, number)
}

/// Ends a request with an answer and returns what starts next.
fn answer(table: &mut Table<u32>, sent: &Started<u32>, answer: Answer, took: Duration) -> Vec<Started<u32>> {
    table.end_with_answer(&sent.usage, answer, took, NOW);
    table.start_waiting(&sent.usage)
}

fn slots(table: &Table<u32>, destination: i64, host: &str) -> (usize, usize) {
    let receiver = Receiver { destination: DestinationId(destination), host, is_failing: false };
    let slots = table.slots_of(receiver);
    (slots.destination, slots.host)
}

/// Returns whether a claim may take another event of the receiver.
fn is_claimable(table: &Table<u32>, receiver: Receiver<'_>) -> bool {
    let slots = table.slots_of(receiver);
    let at_pace = table.available_by_pace().available(slots.pace);
    slots.destination.min(slots.host).min(at_pace).min(table.available()) > 0
}

/// Claims a delivery whose payload of this size is not read yet.
fn add_unread(table: &mut Table<u32>, destination: i64, host: &str, payload_bytes: usize) -> Usage {
    let delivery = NewDelivery { payload_bytes, is_unread: true, ..event(table, destination, host) };
    let usage = table.use_slot(delivery, NOW);
    table.start_reading(&usage);
    usage
}

#[test]
fn a_delivery_takes_no_place_while_its_payload_is_read() {
    let mut table = table(|_| {});
    let mut unread: Vec<_> = (0..2).map(|_| add_unread(&mut table, 1, "h", 100_000)).collect();
    assert_eq!((table.total(), table.in_flight(), table.waiting()), (2, 0, 0));
    assert_eq!(slots(&table, 1, "h"), (0, 2), "it is claimed for a place in its window");
    assert_eq!(table.payloads, PayloadBytes { large: 200_000, unread: 200_000 });
    let small = add(&mut table, 1, "h", 7).expect("a small event overtakes it");
    let mut usage = unread.remove(0);
    assert!(!table.end_reading(&mut usage), "no limit was reached");
    assert_eq!(table.payloads, PayloadBytes { large: 200_000, unread: 100_000 });
    let large = table.add(usage, 8).expect("the window has a second place");
    let mut usage = unread.remove(0);
    table.end_reading(&mut usage);
    assert!(table.add(usage, 9).is_none(), "it waits");
    assert_eq!((table.in_flight(), table.waiting()), (2, 1));
    assert_eq!(answer(&mut table, &small, Answer::Good, FAST)[0].delivery, 9);
    answer(&mut table, &large, Answer::Good, FAST);
    assert_eq!(table.payloads, PayloadBytes { large: 100_000, unread: 0 });
}

#[test]
fn unread_payloads_stop_further_large_ones_until_some_are_read() {
    let mut table = table(|_| {});
    assert_eq!(table.available_payloads(), AvailablePayloads::AnySize(2 << 20));
    let mut first = add_unread(&mut table, 1, "h", 1 << 20);
    assert_eq!(table.available_payloads(), AvailablePayloads::AnySize(1 << 20));
    let mut second = add_unread(&mut table, 2, "h", 1 << 20);
    assert_eq!(table.available_payloads(), AvailablePayloads::OnlySmall(16 << 10));
    assert!(table.end_reading(&mut first), "a claim may take large payloads again");
    assert!(!table.end_reading(&mut second));
    table.free(&first);
    table.free(&second);
    assert_eq!((table.total(), table.payloads), (0, PayloadBytes::default()));
}

#[test]
fn a_delivery_is_not_sent_when_its_destination_was_stopped_while_its_payload_was_read() {
    let mut table = table(|_| {});
    let before = add_unread(&mut table, 1, "h", 100_000);
    assert!(!table.is_stopped(&before));
    table.hold(DestinationId(1));
    table.unhold(DestinationId(1));
    assert!(table.is_stopped(&before));
    let after = add_unread(&mut table, 1, "h", 100_000);
    assert!(!table.is_stopped(&after));
    table.restart_window(DestinationId(1));
    assert!(table.is_stopped(&after));
    let other = add_unread(&mut table, 2, "h", 100_000);
    assert!(!table.is_stopped(&other));
    table.close();
    assert!(table.is_stopped(&other));
}

#[test]
fn a_new_receiver_gets_its_first_window_and_a_prompt_one_many_times_the_window_it_has() {
    let mut table = table(|_| {});
    assert_eq!(slots(&table, 1, "h"), (2, 4));
    let sent: Vec<_> = (0..2).map(|n| add(&mut table, 1, "h", n).expect("the window has a place")).collect();
    assert_eq!(slots(&table, 1, "h"), (0, 2));
    for sent in &sent {
        answer(&mut table, sent, Answer::Good, FAST);
    }
    assert_eq!(slots(&table, 1, "h"), (3 * 16, 8 * 16), "the window has grown from 2 to 3");
    assert_eq!(slots(&table, 2, "h"), (2, 4), "another destination of the host is new");
}

#[test]
fn an_answer_that_enlarges_a_full_window_allows_a_claim() {
    let mut table = table(|_| {});
    let sent: Vec<_> = (0..2).map(|n| add(&mut table, 1, "h", n).unwrap()).collect();
    let (may_claim, _) = table.end_with_answer(&sent[0].usage, Answer::Good, FAST, NOW);
    assert!(may_claim, "the last claim filled the window of two");
}

#[test]
fn events_beyond_the_window_wait_and_start_when_an_answer_arrives() {
    let mut table = table(|_| {});
    let first = add(&mut table, 1, "h", 1).unwrap();
    add(&mut table, 1, "h", 2).unwrap();
    assert!(add(&mut table, 1, "h", 3).is_none() && add(&mut table, 1, "h", 4).is_none());
    let started = answer(&mut table, &first, Answer::Good, FAST);
    let started: Vec<_> = started.iter().map(|it| it.delivery).collect();
    assert_eq!(started, [3, 4], "one has ended, and the window has grown by one");
    assert_eq!(table.total(), 3);
}

#[test]
fn destinations_of_a_full_host_take_turns() {
    let mut table = table(|settings| (settings.concurrency, settings.per_destination) = (2, 1));
    let known = add(&mut table, 1, "h", 0).unwrap();
    answer(&mut table, &known, Answer::Good, FAST);
    let sent = add(&mut table, 1, "h", 10).unwrap();
    for (destination, number) in [(1, 11), (2, 20)] {
        assert!(add(&mut table, destination, "h", number).is_none());
    }
    let mut order = Vec::new();
    let mut next = vec![sent];
    while let Some(sent) = next.pop() {
        order.push(sent.delivery);
        next.extend(answer(&mut table, &sent, Answer::Good, FAST));
    }
    assert_eq!(order, [10, 11, 20]);
}

#[test]
fn a_busy_host_leaves_places_and_hosts_that_wait_take_turns() {
    let mut table = table(|settings| {
        (settings.concurrency, settings.per_destination, settings.window_start) = (40, 40, 40);
    });
    let busy = |table: &mut Table<u32>| (0..40).filter_map(|n| add(table, 1, "busy", n)).collect::<Vec<_>>();
    let sent = busy(&mut table);
    assert_eq!(sent.len(), 32, "four requests for each of the eight places that are left");
    let others: Vec<_> = (2..12).map(|id| add(&mut table, id, &format!("host-{id}"), 0)).collect();
    assert_eq!(others.iter().flatten().count(), 6, "two places are kept for hosts that have answered lately");
    // The busy host gives its places up until the others have theirs.
    let started: Vec<_> =
        sent[..2].iter().flat_map(|sent| answer(&mut table, sent, Answer::Good, FAST)).collect();
    let mut hosts: Vec<_> = started.iter().map(|started| started.usage.host).collect();
    hosts.sort_unstable();
    assert_eq!(hosts, ["host-8", "host-9"].map(|host| table.hosts.number(host).unwrap()));
}

#[test]
fn a_request_without_an_answer_sends_waiting_events_back() {
    let mut table = table(|_| {});
    let sent: Vec<_> = (0..2).map(|n| add(&mut table, 1, "h", n).unwrap()).collect();
    assert!(add(&mut table, 1, "h", 2).is_none());
    assert_eq!(table.end_with_answer(&sent[0].usage, Answer::Missing, FAST, NOW).1, [2]);
    assert_eq!(table.total(), 1);
    assert_eq!(
        table.slots_of(Receiver { destination: DestinationId(1), host: "h", is_failing: false }).pace,
        Pace::Silent
    );
    assert_eq!(slots(&table, 1, "h"), (0, 1), "the window is one, that of the host four");
}

#[test]
fn a_destination_that_hangs_leaves_places_to_others_of_its_host() {
    let mut table = table(|_| {});
    let known = add(&mut table, 1, "h", 0).unwrap();
    answer(&mut table, &known, Answer::Good, FAST);
    let hanging: Vec<_> =
        (2..4).flat_map(|id| [(); 2].map(|()| add(&mut table, id, "h", 0).unwrap())).collect();
    assert_eq!(slots(&table, 4, "h"), (2, 0), "destinations that have not answered hold half of the window");
    assert_eq!(slots(&table, 1, "h"), (2 * 16, 8 * 16 - 4));
    answer(&mut table, &hanging[0], Answer::Missing, FAST);
    let receiver = Receiver { destination: DestinationId(1), host: "h", is_failing: false };
    assert_eq!(table.slots_of(receiver).pace, Pace::Prompt, "another destination has answered");
    answer(&mut table, &hanging[1], Answer::Missing, FAST);
    assert_eq!(table.slots_of(receiver).pace, Pace::Silent, "no destination has answered since");
}

#[test]
fn silent_hosts_share_a_quarter_of_the_slots() {
    let mut table = table(|settings| settings.concurrency = 8);
    for host in ["a", "b", "c"] {
        let sent = add(&mut table, 1, host, 0).unwrap();
        answer(&mut table, &sent, Answer::Missing, FAST);
        table.destinations.clear();
    }
    for (destination, host) in [(1, "a"), (2, "b")] {
        add(&mut table, destination, host, 0).unwrap();
    }
    let by_pace = table.available_by_pace();
    let available =
        [Pace::Silent, Pace::Slow, Pace::Steady, Pace::Prompt].map(|pace| by_pace.available(pace));
    assert_eq!(available, [0, 2, 4, 22]);
}

#[test]
fn an_opened_circuit_restarts_the_window() {
    let mut table = table(|settings| settings.window_start = 4);
    let sent = add(&mut table, 1, "h", 0).unwrap();
    for number in 1..6 {
        add(&mut table, 1, "h", number);
    }
    assert_eq!(table.restart_window(DestinationId(1)), [4, 5]);
    assert!(answer(&mut table, &sent, Answer::Failing, FAST).is_empty());
    assert_eq!(slots(&table, 1, "h").0, 0, "three are in flight in a window of one");
}

#[test]
fn destinations_that_answer_are_known_until_they_are_silent() {
    let mut table = table(|_| {});
    let sent = add(&mut table, 1, "h", 0).unwrap();
    assert_eq!(table.known(), []);
    answer(&mut table, &sent, Answer::Good, FAST);
    assert_eq!(table.known(), [DestinationId(1)]);
    let sent = add(&mut table, 1, "h", 0).unwrap();
    answer(&mut table, &sent, Answer::Missing, FAST);
    assert_eq!(table.known(), []);
}

#[test]
fn unused_receivers_are_forgotten_and_busy_ones_are_not() {
    let mut table = table(|_| {});
    let sent = add(&mut table, 1, "idle", 0).unwrap();
    answer(&mut table, &sent, Answer::Good, FAST);
    let busy = add(&mut table, 2, "busy", 0).unwrap();
    table.forget_unused(NOW + REMEMBERED_FOR);
    assert_eq!((table.destinations.len(), table.hosts.entries().len()), (1, 1));
    answer(&mut table, &busy, Answer::Good, FAST);
}

/// Returns a table in which these destinations of host "h" have answered at once, and whose last claim found no more.
fn caught_up(destinations: &[i64], change: impl FnOnce(&mut Settings)) -> Table<u32> {
    let mut table = table(change);
    for destination in destinations {
        let sent = add(&mut table, *destination, "h", 0).unwrap();
        answer(&mut table, &sent, Answer::Good, FAST);
    }
    table.left_behind.record_claim(true);
    table.left_behind.record_claim(true);
    table
}

fn reserve(table: &mut Table<u32>, destinations: &[i64]) -> Option<Vec<Usage>> {
    let urls: Vec<&str> = destinations.iter().map(|destination| url(*destination)).collect();
    table.reserve(&urls, |_| true, NOW)
}

#[test]
fn places_are_reserved_for_known_prompt_destinations_only() {
    let mut table = caught_up(&[1], |_| {});
    assert!(reserve(&mut table, &[2]).is_none(), "unknown");
    assert!(reserve(&mut table, &[1, 2]).is_none(), "one of two is unknown");
    assert_eq!(table.total(), 0);
    assert!(table.reserve(&[url(1)], |_| false, NOW).is_none(), "the circuit is open");
    let reserved = reserve(&mut table, &[1]).unwrap();
    assert_eq!((table.total(), table.open_reservations), (1, 1));
    table.end_with_answer(&reserved[0], Answer::Good, Duration::from_millis(900), NOW);
    assert!(reserve(&mut table, &[1]).is_none(), "the host is not prompt");
}

#[test]
fn no_more_places_are_reserved_than_the_windows_have() {
    let mut table = caught_up(&[1, 2], |_| {});
    assert!(reserve(&mut table, &[1, 1, 1]).is_none());
    assert_eq!((table.total(), table.in_flight), (0, 0), "places of a refused request are free");
    let window = table.hosts[table.hosts.number("h").unwrap()].window;
    host_entry(&mut table).window = Window::new(2, 2);
    let reserved = reserve(&mut table, &[1, 2]).unwrap();
    assert!(reserve(&mut table, &[1]).is_none(), "the window of the host is two");
    table.end_all(&reserved);
    host_entry(&mut table).window = window;
    assert!(reserve(&mut table, &[1, 1]).is_some());
}

#[test]
fn no_place_is_reserved_past_events_that_wait() {
    let mut table = caught_up(&[1], |_| {});
    for number in 0..9 {
        add(&mut table, 2 + number / 2, "h", 1);
    }
    table.left_behind.forget_destinations();
    host_entry(&mut table).in_flight = 0;
    assert!(reserve(&mut table, &[1]).is_none(), "an event to the host waits for its turn");
}

#[test]
fn no_place_is_reserved_past_events_that_the_last_claim_left_behind() {
    let mut table = caught_up(&[1], |_| {});
    table.left_behind.mark(DestinationId(1));
    table.left_behind.record_claim(true);
    assert!(reserve(&mut table, &[1]).is_none(), "the claim could not take all");
    table.left_behind.record_claim(true);
    let reserved = reserve(&mut table, &[1]).unwrap();
    table.end_all(&reserved);
    table.left_behind.record_claim(false);
    assert!(reserve(&mut table, &[1]).is_none(), "the claim reached its limit");
    table.left_behind.record_claim(true);
    table.left_behind.record_no_claim();
    assert!(reserve(&mut table, &[1]).is_none(), "the claim failed");
}

#[test]
fn a_claim_that_fills_a_destination_may_have_left_events_behind() {
    let mut table = caught_up(&[1], |settings| settings.per_destination = 1);
    let sent: Vec<_> = (0..16).filter_map(|number| add(&mut table, 1, "h", number)).collect();
    let mut next = sent;
    while let Some(sent) = next.pop() {
        next.extend(answer(&mut table, &sent, Answer::Good, FAST));
    }
    assert_eq!(table.total(), 0);
    assert!(reserve(&mut table, &[1]).is_none());
    table.left_behind.record_claim(true);
    assert!(reserve(&mut table, &[1]).is_some());
}

#[test]
fn no_place_is_reserved_while_a_destination_is_held_or_after_the_end() {
    let mut table = caught_up(&[1], |_| {});
    table.hold(DestinationId(1));
    assert!(reserve(&mut table, &[1]).is_none());
    table.unhold(DestinationId(1));
    let reserved = reserve(&mut table, &[1]).unwrap();
    table.end_all(&reserved);
    table.close();
    assert!(reserve(&mut table, &[1]).is_none());
}

#[test]
fn a_destination_that_is_created_again_is_found_under_its_new_id() {
    let mut table = caught_up(&[1], |_| {});
    let again = NewDelivery { destination: DestinationId(70), ..event(&mut table, 1, "h") };
    let usage = table.use_slot(again, NOW);
    let sent = table.add(usage, 0).unwrap();
    answer(&mut table, &sent, Answer::Good, FAST);
    assert_eq!(reserve(&mut table, &[1]).unwrap()[0].destination, DestinationId(70));
    table.forget_unused(NOW + REMEMBERED_FOR);
    assert_eq!(table.by_url.len(), 1, "the busy one stays");
}

#[test]
fn a_destination_whose_url_moves_to_another_host_is_counted_there_once_its_deliveries_have_ended() {
    let mut table = table(|_| {});
    let mut sent: Vec<_> = (1..3).map(|number| add(&mut table, 1, "old", number).unwrap()).collect();
    assert!(add(&mut table, 1, "old", 3).is_none());
    // A delivery that was claimed before the worker knew of the change.
    assert!(add(&mut table, 1, "new", 4).is_none());
    assert_eq!(
        slots(&table, 1, "new").0,
        0,
        "nothing more is claimed while deliveries to the old host are left"
    );
    table.forget_unused(NOW + REMEMBERED_FOR);
    while let Some(next) = sent.pop() {
        sent.extend(answer(&mut table, &next, Answer::Good, FAST));
    }
    assert_eq!((table.total(), table.in_flight()), (0, 0));
    assert!(table.hosts.entries().all(|host| host.claimed == 0 && host.in_flight == 0));
    assert!(slots(&table, 1, "new").0 > 0);
    let moved = add(&mut table, 1, "new", 5).unwrap();
    assert_eq!(Some(moved.usage.host), table.hosts.number("new"));
}

#[test]
fn a_window_that_has_grown_is_filled_at_once() {
    let mut table = table(|_| {});
    let mut sent: VecDeque<_> = (0..200).filter_map(|number| add(&mut table, 1, "h", number)).collect();
    assert_eq!(sent.len(), 2);
    for _ in 0..20 {
        let first = sent.pop_front().unwrap();
        sent.extend(answer(&mut table, &first, Answer::Good, FAST));
    }
    assert_eq!(sent.len(), 20, "one answer makes room for two requests while the window grows");
}

/// Claims one event of each destination from `next` on, as far as the slots allow.
fn claim_singles(table: &mut Table<u32>, next: &mut i64) -> Vec<Started<u32>> {
    let mut sent = Vec::new();
    while is_claimable(table, Receiver { destination: DestinationId(*next), host: "h", is_failing: false }) {
        sent.extend(add(table, *next, "h", 0));
        *next += 1;
    }
    sent
}

#[test]
fn new_destinations_of_a_host_with_one_event_each_follow_one_another_at_once() {
    let mut table = table(|_| {});
    let mut next = 1;
    let mut sent = claim_singles(&mut table, &mut next);
    assert_eq!(sent.len(), 4, "half of the host's window");
    for _ in 0..18 {
        let mut may_claim = false;
        for request in std::mem::take(&mut sent) {
            may_claim |= table.end_with_answer(&request.usage, Answer::Good, FAST, NOW).0;
        }
        assert!(may_claim, "the slots for destinations that have not answered were used");
        sent = claim_singles(&mut table, &mut next);
    }
    assert_eq!(sent.len(), 128, "the host's window has grown to half of all slots");
}

#[test]
fn destinations_that_answer_leave_places_of_their_host_to_new_ones() {
    let mut table = table(|_| {});
    let known = add(&mut table, 1, "h", 0).unwrap();
    answer(&mut table, &known, Answer::Good, FAST);
    for number in 0..32 {
        add(&mut table, 1, "h", number);
    }
    assert_eq!(slots(&table, 1, "h").0, 0, "the known destination has all that it may have");
    assert_eq!(slots(&table, 2, "h"), (2, 4));
    assert!(add(&mut table, 2, "h", 0).is_some(), "a new destination finds a place");
}

proptest! {
    /// Random deliveries and answers: windows are never exceeded, nothing waits while it could be sent, and all counts
    /// return to zero.
    #[test]
    fn windows_hold_and_no_slot_is_lost(steps in proptest::collection::vec((0..6_i64, 0..4_usize, 0..8_u8), 1..300)) {
        let mut table = table(|settings| settings.concurrency = 40);
        let mut sent: Vec<Started<u32>> = Vec::new();
        for (step, (destination, index, kind)) in steps.into_iter().enumerate() {
            let host = ["a", "b"][usize::try_from(destination % 2).unwrap()];
            let number = u32::try_from(step).unwrap();
            if kind < 3 && table.available() > 0 {
                sent.extend(add(&mut table, destination, host, number));
            } else if kind == 5 {
                table.left_behind.record_claim(true);
                sent.extend(table.begin_interval().started);
            } else if kind > 5 {
                let urls = vec![url(destination); index + 1];
                let before = (table.total(), table.in_flight);
                let reserved = table.reserve(&urls, |_| true, NOW);
                if reserved.is_none() {
                    prop_assert_eq!((table.total(), table.in_flight), before);
                }
                let started = |usage| Started { usage, delivery: number };
                sent.extend(reserved.into_iter().flatten().map(started));
            } else if !sent.is_empty() {
                let ended = sent.swap_remove(index % sent.len());
                let result = [Answer::Good, Answer::Missing, Answer::Failing][usize::from(kind) % 3];
                table.end_with_answer(&ended.usage, result, FAST, NOW);
                sent.extend(table.start_waiting(&ended.usage));
            }
            for entry in table.destinations.values() {
                prop_assert!(entry.window.size() <= 20);
            }
            let in_flight: usize = table.hosts.entries().map(|host| host.in_flight).sum();
            prop_assert_eq!(in_flight, sent.len());
            let beyond_three_quarters = table.ages.old().saturating_sub(30);
            prop_assert!(in_flight <= 40 + beyond_three_quarters, "{in_flight} in flight");
        }
        while let Some(ended) = sent.pop() {
            table.end(&ended.usage);
            sent.extend(table.start_all());
        }
        prop_assert_eq!((table.total(), table.retries), (0, 0));
        prop_assert_eq!(table.payloads, PayloadBytes::default());
        prop_assert!(table.by_pace.values().all(|used| *used == 0));
        prop_assert!(table.hosts.entries().all(|host| host.claimed == 0 && host.in_flight == 0));
    }

    /// A claimer that claims only when an ended delivery tells it to never stops while events are due.
    #[test]
    fn an_ended_delivery_tells_when_to_claim(
        steps in prop::collection::vec((0..64_usize, 0..4_u8), 1..200),
        concurrency in 1..40_usize,
    ) {
        let mut table = table(|settings| settings.concurrency = concurrency);
        let (mut sent, mut may_claim) = (Vec::new(), true);
        for (index, kind) in steps {
            if may_claim {
                sent.extend(table.start_all());
                for destination in 0..6_i64 {
                    let host = ["a", "b", "c"][usize::try_from(destination % 3).unwrap()];
                    let receiver =
                        Receiver { destination: DestinationId(destination), host, is_failing: false };
                    while is_claimable(&table, receiver) {
                        sent.extend(add(&mut table, destination, host, 0));
                    }
                }
            }
            prop_assert!(!sent.is_empty(), "nothing is in flight, and no claim is due");
            let ended = sent.swap_remove(index % sent.len());
            let answer = [Answer::Good, Answer::Good, Answer::Failing, Answer::Missing][usize::from(kind)];
            may_claim = table.end_with_answer(&ended.usage, answer, FAST, NOW).0;
            sent.extend(table.start_waiting(&ended.usage));
        }
    }
}
