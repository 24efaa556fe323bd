//! A claim does not search all destinations of hosts that the worker has no slots for. The next claims go on.

use std::collections::BTreeMap;
use std::future::Future as _;
use std::pin::pin;
use std::task::{Context, Waker};

use posthaste_store::{ClaimRequest, FixedSlots, Store as _, Wakeups};

use crate::support::{Fixture, claim, enqueue, new_event, spec};

const SATURATED: &str = "https://saturated.example";
const DESTINATIONS: usize = 900;

/// Returns a store with one event for each of many destinations of a host, and then one for another host.
async fn fixture() -> Fixture {
    let fixture = Fixture::new();
    let saturated = (0..DESTINATIONS).map(|number| format!("{SATURATED}/{number}"));
    let urls = saturated.chain(["https://other.example/hook".to_owned()]);
    enqueue(&fixture.store, urls.map(|url| new_event(spec(&url))).collect()).await;
    fixture
}

/// A claim of a worker that has so many slots for the first host.
fn claim_with(host_slots: usize) -> ClaimRequest {
    let hosts = BTreeMap::from([(SATURATED.to_owned(), host_slots)]);
    ClaimRequest { slots: FixedSlots { hosts, ..FixedSlots::per_destination(1) }.share(), ..claim() }
}

/// Returns whether the store has woken its workers since the last call.
fn is_woken(wakeups: &mut Wakeups) -> bool {
    pin!(wakeups.wait()).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[tokio::test]
async fn a_claim_that_passes_over_many_destinations_wakes_the_workers_and_the_next_goes_on() {
    let Fixture { store, .. } = &fixture().await;
    let mut wakeups = store.wakeups();
    let mut granted = Vec::new();
    loop {
        granted.push(store.claim(&claim_with(0)).await.unwrap().leases.len());
        if !is_woken(&mut wakeups) {
            break;
        }
    }
    assert_eq!(granted, [0, 0, 0, 1], "three claims pass over 250 destinations each");
    assert!(store.claim(&claim_with(0)).await.unwrap().leases.is_empty());
    assert!(is_woken(&mut wakeups), "another search begins");
}

#[tokio::test]
async fn every_destination_of_a_host_with_few_slots_gets_its_turn() {
    let Fixture { store, .. } = &fixture().await;
    let mut wakeups = store.wakeups();
    let mut granted = 0;
    let mut claims = 0;
    while granted < DESTINATIONS + 1 {
        let leases = store.claim(&claim_with(30)).await.unwrap().leases;
        assert!(leases.len() <= 31, "30 slots of the host, and one of the other");
        granted += leases.len();
        claims += 1;
        // A claim may find the entries that an earlier one has consumed, and removes them.
        assert!(claims <= 2 * (DESTINATIONS / 30 + 1), "{granted} events after {claims} claims");
    }
    is_woken(&mut wakeups);
    assert!(store.claim(&claim_with(30)).await.unwrap().leases.is_empty());
    assert!(!is_woken(&mut wakeups), "nothing is left to search");
}
