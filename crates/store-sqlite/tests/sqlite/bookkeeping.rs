//! Derived data agrees with the rows it is derived from after any sequence of operations: totals, retry times, queues
//! and claims.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use posthaste_domain::{DestinationId, EventId, Lease, NewEventSpec};
use posthaste_store::{ClaimRequest, EnqueueLease, EnqueueRequest, LeaseRef, Retention, Store as _};
use posthaste_store_sqlite::rusqlite::{Connection, Row};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::support::{Fixture, HOUR, claim, enqueue, event, new_event, settlement, spec, worker};

/// Returns the totals that differ from a count of the rows, and the destinations whose `earliest_retry_at` is too late.
fn find_wrong_totals(db: &Connection) -> (Vec<String>, Vec<i64>) {
    let counted = "
        SELECT count(*) FILTER (WHERE delivery_status = 'pending'),
               count(*) FILTER (WHERE delivery_status = 'pending' AND attempts > 0),
               count(*) FILTER (WHERE delivery_status = 'failed'),
               count(*) FILTER (WHERE failure_kind = 'cancelled'),
               count(*) FILTER (WHERE delivery_status = 'delivered'),
               (SELECT count(*) FROM webhook_deferred)
        FROM webhook_outbox_events";
    let stored = "SELECT pending, retrying, failed, cancelled, delivered, deferred FROM webhook_totals";
    let read_counts = |sql: &str| -> [i64; 6] {
        let counts = |row: &Row<'_>| {
            Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?])
        };
        db.query_row(sql, [], counts).unwrap()
    };
    let names = ["pending", "retrying", "failed", "cancelled", "delivered", "deferred"];
    let pairs = names.iter().zip(read_counts(counted).into_iter().zip(read_counts(stored)));
    let totals = pairs.filter(|(_, (rows, total))| rows != total).map(|pair| format!("{pair:?}")).collect();
    let mut too_late = db
        .prepare(
            "SELECT d.id FROM webhook_destinations d
             WHERE coalesce(d.earliest_retry_at, 9223372036854775807) >
                   (SELECT min(next_attempt_at) FROM webhook_outbox_events e
                    WHERE e.destination_id = d.id AND e.delivery_status = 'pending'
                      AND e.attempts > 0 AND e.lease_token IS NULL)
             UNION ALL
             SELECT d.id FROM webhook_destinations d
             WHERE coalesce(d.earliest_deferred_at, 9223372036854775807) >
                   (SELECT min(next_attempt_at) FROM webhook_deferred e WHERE e.destination_id = d.id)",
        )
        .unwrap();
    let too_late = too_late.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    (totals, too_late)
}

/// Returns the events whose rows contradict each other: a pending event without a lease that is not in exactly one queue,
/// a leased event in a queue, a queue entry that differs from `webhook_queue`, an event that is both pending and failed,
/// a delivered event without an attempt. Also returns destinations with a wrong number of consumed rows.
fn find_inconsistent_queues(db: &Connection) -> Vec<i64> {
    let mut inconsistent = db
        .prepare(
            "WITH ready AS (SELECT r.* FROM webhook_first_attempts r JOIN webhook_destinations d ON d.id = r.destination_id
                            WHERE r.id >= d.first_attempts_head)
             SELECT q.id FROM webhook_queue q
             WHERE (SELECT count(*) FROM ready r
                    WHERE r.id = q.id AND q.attempts = 0 AND r.destination_id = q.destination_id
                      AND r.requeued_at IS q.requeued_at)
                 + (SELECT count(*) FROM webhook_deferred r
                    WHERE r.id = q.id AND q.attempts = 0 AND r.destination_id = q.destination_id
                      AND r.next_attempt_at = q.next_attempt_at)
                 + (SELECT count(*) FROM webhook_retries r
                    WHERE r.id = q.id AND q.attempts > 0 AND r.destination_id = q.destination_id
                      AND r.next_attempt_at = q.next_attempt_at)
                 <> (q.lease_token IS NULL)
             UNION ALL
             SELECT id FROM ready WHERE id NOT IN (SELECT id FROM webhook_queue WHERE attempts = 0)
             UNION ALL
             SELECT d.id FROM webhook_destinations d
             WHERE d.first_attempts_consumed <> (SELECT count(*) FROM webhook_first_attempts r
                                     WHERE r.destination_id = d.id AND r.id < d.first_attempts_head)
             UNION ALL
             SELECT id FROM webhook_retries WHERE id NOT IN (SELECT id FROM webhook_queue WHERE attempts > 0)
             UNION ALL
             SELECT id FROM webhook_deferred WHERE id NOT IN (SELECT id FROM webhook_queue WHERE attempts = 0)
             UNION ALL
             SELECT id FROM webhook_failures WHERE id IN (SELECT id FROM webhook_queue)
             UNION ALL
             SELECT id FROM webhook_outbox_events WHERE delivery_status = 'delivered' AND delivered_at IS NULL",
        )
        .unwrap();
    inconsistent.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

/// Returns the claims whose counts differ from their leases, that hold no lease, or whose `expiry_check_at` is too late.
fn find_wrong_claims(db: &Connection) -> Vec<i64> {
    let mut wrong = db
        .prepare(
            "SELECT c.id FROM webhook_claims c
             WHERE c.first_attempt_leases + c.retry_leases = 0
                OR length(c.event_keys) < 8 * (c.first_attempt_leases + c.retry_leases)
                OR c.first_attempt_leases <>
                   (SELECT count(*) FROM webhook_queue q WHERE q.lease_claim = c.id AND q.attempts = 0)
                OR c.retry_leases <>
                   (SELECT count(*) FROM webhook_queue q WHERE q.lease_claim = c.id AND q.attempts > 0)
                OR c.expiry_check_at > (SELECT min(lease_until) FROM webhook_queue q WHERE q.lease_claim = c.id)
             UNION ALL
             SELECT lease_claim FROM webhook_queue
             WHERE lease_claim IS NOT NULL AND lease_claim NOT IN (SELECT id FROM webhook_claims)",
        )
        .unwrap();
    wrong.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

/// Counts the claimable events by their definition, without the queues and lower bounds that a claim uses.
fn count_claimable(db: &Connection, now: i64) -> i64 {
    db.query_row(
        "SELECT count(*) FROM webhook_outbox_events e
         WHERE delivery_status = 'pending' AND next_attempt_at <= ?1 AND (lease_until IS NULL OR lease_until <= ?1)
           AND NOT EXISTS (SELECT 1 FROM webhook_destinations d
                           WHERE d.id = e.destination_id AND d.paused_until > ?1)",
        [now],
        |row| row.get(0),
    )
    .unwrap()
}

#[tokio::test]
async fn totals_queues_and_claims_agree_with_the_rows_after_every_step() {
    for seed in 0..6 {
        let fixture = Fixture::new();
        let (store, db) = (&fixture.store, fixture.sql());
        let mut random = StdRng::seed_from_u64(seed);
        let mut ids: Vec<EventId> = Vec::new();
        let mut leases: Vec<Lease> = Vec::new();
        for step in 0..250 {
            let pick = |random: &mut StdRng, ids: &[EventId]| ids[random.random_range(0..ids.len())].clone();
            match random.random_range(0..11) {
                0 | 1 => {
                    let url = format!("https://receiver-{}.example/", random.random_range(0..4));
                    let owner = worker();
                    let seconds = if random.random_bool(0.3) { random.random_range(1..120) } else { 0 };
                    let with_delay = NewEventSpec { deliver_in: Duration::from_secs(seconds), ..spec(&url) };
                    let lease =
                        EnqueueLease { owner, duration: Duration::from_secs(random.random_range(1..120)) };
                    let request = EnqueueRequest {
                        lease: random.random_bool(0.3).then_some(lease),
                        ..EnqueueRequest::new(vec![new_event(with_delay); 3])
                    };
                    let response = store.enqueue(request).await.unwrap();
                    ids.extend(response.receipts.into_iter().map(|receipt| receipt.event_id));
                    leases.extend(response.leases);
                }
                2..=4 => {
                    let limit = random.random_range(1..8);
                    let request = ClaimRequest { limit, abandon_after: 2, ..claim() };
                    leases.extend(store.claim(&request).await.unwrap().leases);
                }
                5 | 6 if !leases.is_empty() => {
                    let count = random.random_range(1..=leases.len());
                    let status = [200, 500, 410, 503][random.random_range(0..4)];
                    let batch: Vec<_> =
                        leases.drain(..count).map(|lease| settlement(&lease, status)).collect();
                    store.settle(&worker(), &batch).await.unwrap();
                }
                7 if !leases.is_empty() => {
                    let held = LeaseRef::from(&leases.remove(0));
                    store.release(&[held]).await.unwrap();
                }
                8 if !ids.is_empty() => {
                    // Each may be refused, and must then change nothing.
                    let _ = store.cancel(&pick(&mut random, &ids), "operator".into(), None).await;
                    let _ = store.requeue(&pick(&mut random, &ids), "operator".into()).await;
                    let _ = store.discard(&pick(&mut random, &ids), "operator".into(), None).await;
                }
                9 => {
                    fixture.clock.advance(Duration::from_secs(random.random_range(1..90)));
                    let keep_dead_letters_for = Some(HOUR);
                    let retention = Retention {
                        keep_for: Some(HOUR),
                        keep_dead_letters_for,
                        keep_unused_destinations_for: None,
                        rows_max: 2,
                    };
                    store.maintain(&retention).await.unwrap();
                }
                10 if !leases.is_empty() => {
                    let held: Vec<LeaseRef> = leases.iter().step_by(2).map(LeaseRef::from).collect();
                    let lease = Duration::from_secs(random.random_range(1..120));
                    store.renew(&held, lease).await.unwrap();
                }
                _ => {}
            }
            assert_eq!(find_wrong_totals(&db), (vec![], vec![]), "seed {seed}, step {step}");
            assert_eq!(find_inconsistent_queues(&db), [0_i64; 0], "seed {seed}, step {step}");
            assert_eq!(find_wrong_claims(&db), [0_i64; 0], "seed {seed}, step {step}");
        }
    }
}

#[tokio::test]
async fn a_claim_below_its_limits_grants_every_claimable_event() {
    let fixture = Fixture::new();
    let (store, db) = (&fixture.store, fixture.sql());
    let mut random = StdRng::seed_from_u64(7);
    for round in 0..40 {
        let url = format!("https://receiver-{}.example/", random.random_range(0..6));
        enqueue(store, vec![new_event(spec(&url)); random.random_range(1..6)]).await;
        fixture.clock.advance(Duration::from_secs(random.random_range(0..120)));
        let now = posthaste_store::StoreClock::now(fixture.clock.as_ref()).as_micros();
        let expected = count_claimable(&db, now);
        let claimed =
            store.claim(&ClaimRequest { limit: 1_000, retries_max: 1_000, ..claim() }).await.unwrap();
        let granted = claimed.leases.len() + claimed.abandoned.len();
        assert_eq!(granted, usize::try_from(expected).unwrap(), "round {round}");
        let status = [200, 500, 500][random.random_range(0..3)];
        // A third of the leases is not settled, and so lost.
        let batch: Vec<_> = claimed
            .leases
            .iter()
            .filter(|lease| lease.key.0 % 3 != 0)
            .map(|l| settlement(l, status))
            .collect();
        store.settle(&worker(), &batch).await.unwrap();
    }
}

#[tokio::test]
async fn small_claims_serve_the_destinations_in_rotation() {
    let fixture = Fixture::new();
    for n in 0..4 {
        let url = format!("https://receiver-{n}.example/");
        enqueue(&fixture.store, vec![new_event(spec(&url)); 10]).await;
    }
    let mut served: BTreeMap<DestinationId, usize> = BTreeMap::new();
    for _ in 0..8 {
        let request = ClaimRequest { limit: 1, ..claim() };
        let lease = fixture.store.claim(&request).await.unwrap().leases.remove(0);
        *served.entry(lease.destination_id).or_default() += 1;
    }
    assert_eq!(
        served.values().copied().collect::<Vec<_>>(),
        [2, 2, 2, 2],
        "each destination is served equally often"
    );
}

#[tokio::test]
async fn small_claims_skip_queues_that_hold_only_consumed_rows() {
    let fixture = Fixture::new();
    for n in 0..3 {
        let url = format!("https://receiver-{n}.example/");
        enqueue(&fixture.store, vec![new_event(spec(&url)); 1 + n]).await;
    }
    for _ in 0..6 {
        let request = ClaimRequest { limit: 1, ..claim() };
        assert_eq!(fixture.store.claim(&request).await.unwrap().leases.len(), 1);
    }
    assert_eq!(fixture.store.claim(&claim()).await.unwrap().leases.len(), 0);
}

#[tokio::test]
async fn every_event_of_a_long_queue_is_granted_once_although_some_are_released() {
    let fixture = Fixture::new();
    let (store, db) = (&fixture.store, fixture.sql());
    let mut waiting: BTreeSet<EventId> = enqueue(store, vec![event(); 400]).await.into_iter().collect();
    for round in 0.. {
        let leases = store.claim(&ClaimRequest { limit: 7, ..claim() }).await.unwrap().leases;
        if leases.is_empty() {
            break;
        }
        for lease in leases {
            if round % 9 == 8 && lease.key.0 % 2 == 0 {
                store.release(&[LeaseRef::from(&lease)]).await.unwrap();
            } else {
                assert!(waiting.remove(&lease.event_id), "{:?} was granted before", lease.event_id);
            }
        }
        assert_eq!(find_inconsistent_queues(&db), [0_i64; 0], "round {round}");
    }
    assert_eq!(waiting, BTreeSet::new());
    let rows: i64 =
        db.query_row("SELECT count(*) FROM webhook_first_attempts", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 0, "an empty queue keeps no consumed rows");
}

#[tokio::test]
async fn a_claim_grants_equal_shares_and_redistributes_unused_ones() {
    let fixture = Fixture::new();
    for (n, count) in [(0, 100), (1, 2), (2, 100)] {
        let url = format!("https://receiver-{n}.example/");
        enqueue(&fixture.store, vec![new_event(spec(&url)); count]).await;
    }
    let request = ClaimRequest { limit: 30, ..claim() };
    let mut served: BTreeMap<DestinationId, usize> = BTreeMap::new();
    for lease in fixture.store.claim(&request).await.unwrap().leases {
        *served.entry(lease.destination_id).or_default() += 1;
    }
    assert_eq!(served.values().copied().collect::<Vec<_>>(), [14, 2, 14]);
}

#[tokio::test]
async fn neither_retries_nor_first_attempts_starve_the_other_of_slots() {
    let fixture = Fixture::new();
    let store = &fixture.store;
    enqueue(store, vec![event(); 20]).await;
    let leases = store.claim(&claim()).await.unwrap().leases;
    let batch: Vec<_> = leases.iter().map(|lease| settlement(lease, 500)).collect();
    store.settle(&worker(), &batch).await.unwrap();
    fixture.clock.advance(HOUR);
    enqueue(store, vec![event(); 20]).await;
    let (mut retries, mut first_attempts) = (0, 0);
    for _ in 0..6 {
        for lease in store.claim(&ClaimRequest { limit: 2, ..claim() }).await.unwrap().leases {
            if lease.is_retry() { retries += 1 } else { first_attempts += 1 }
        }
    }
    assert_eq!((retries, first_attempts), (6, 6));
}
