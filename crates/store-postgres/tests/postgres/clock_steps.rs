//! The server's clock steps back.

use std::time::Duration;

use posthaste_domain::EventId;
use posthaste_postgres_server::PostgresServer;
use posthaste_store::{LeaseRef, Store};
use posthaste_store_conformance::Harness as _;

use crate::fixture::*;
use crate::support::PostgresHarness;

/// How far the clock steps back.
const STEP: Duration = Duration::from_secs(7_200);
/// Claims within which a due event is granted, without waiting for a sweep.
const CLAIMS_MAX: usize = 3;

/// Sets the store's clock to this long after a step back.
fn set_clock(harness: &PostgresHarness, since_step: Duration) {
    let behind = (STEP - since_step).as_secs();
    let sql = format!(
        "CREATE OR REPLACE FUNCTION app.webhook_now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
         AS $$SELECT statement_timestamp() - interval '{behind} seconds'$$"
    );
    query_text(PostgresServer::shared(), &harness.database.name, &sql);
}

async fn granted_soon(store: &dyn Store) -> Vec<EventId> {
    for _ in 0..CLAIMS_MAX {
        let leases = claim(store).await;
        if !leases.is_empty() {
            return leases.into_iter().map(|lease| lease.event_id).collect();
        }
    }
    Vec::new()
}

#[tokio::test]
async fn a_retry_scheduled_after_the_clock_stepped_back_is_granted_when_it_is_due() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    enqueue_and_attempt(&*store, spec(), 200).await;
    set_clock(&harness, Duration::ZERO);
    claim(&*store).await;
    let event_id = enqueue_and_attempt(&*store, spec(), 500).await;
    assert_eq!(granted_soon(&*store).await, []);
    set_clock(&harness, 2 * MINUTE);
    assert_eq!(granted_soon(&*store).await, [event_id]);
}

#[tokio::test]
async fn a_retry_scheduled_before_the_clock_stepped_back_is_due_after_its_own_delay() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    let event_id = enqueue_and_attempt(&*store, spec(), 500).await;
    set_clock(&harness, Duration::ZERO);
    claim(&*store).await;
    wait_until(TIMEOUT, "the delay begins again", async || {
        let event = store.event(&event_id).await.unwrap().event;
        event.next_attempt_at == Some(event.updated_at.after(MINUTE))
            && event.updated_at <= store.health().await.unwrap().now
    })
    .await;
    assert_eq!(granted_soon(&*store).await, []);
    set_clock(&harness, 2 * MINUTE);
    assert_eq!(granted_soon(&*store).await, [event_id]);
}

#[tokio::test]
async fn a_lease_from_before_the_clock_stepped_back_ends_a_full_lease_later_unless_it_is_renewed() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    enqueue_all(&*store, vec![spec_with_id("lost"), spec_with_id("renewed")]).await;
    let leases = claim(&*store).await;
    set_clock(&harness, Duration::ZERO);
    // Another process, which has not seen the clock step back.
    let other = harness.second_handle();
    let lost = EventId::new("lost").unwrap();
    wait_until(TIMEOUT, "the lease is shortened", async || {
        assert_eq!(granted_soon(&*other).await, [], "no lease is taken over before it ends");
        let until = store.event(&lost).await.unwrap().event.lease_until.expect("the event is leased");
        until <= store.health().await.unwrap().now.after(LEASE)
    })
    .await;
    set_clock(&harness, LEASE / 2);
    let renewed: Vec<LeaseRef> =
        leases.iter().filter(|lease| lease.event_id != lost).map(LeaseRef::from).collect();
    assert_eq!(store.renew(&renewed, LEASE).await.unwrap(), []);
    // A quarter of a lease after the end of one, and a quarter before the end of the other: the test takes real time.
    set_clock(&harness, LEASE + LEASE / 4);
    assert_eq!(granted_soon(&*other).await, [lost]);
}

#[tokio::test]
async fn a_lease_that_a_renewal_lengthened_is_not_shortened() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    enqueue(&*store, spec()).await;
    let lease = claim_one(&*store).await;
    assert_eq!(store.renew(&[LeaseRef::from(&lease)], 10 * LEASE).await.unwrap(), []);
    let client = client(&harness.database.url).await;
    // A sweep begins by lowering the watermark. When it has done so twice, it has compared the lease with the clock.
    for _ in 0..2 {
        client.batch_execute("UPDATE app.webhook_pending_watermark SET min_key = 1000").await.unwrap();
        wait_until(TIMEOUT, "a sweep begins", async || {
            let sql = "SELECT min_key < 1000 FROM app.webhook_pending_watermark";
            client.query_one(sql, &[]).await.unwrap().get::<_, bool>(0)
        })
        .await;
    }
    harness.advance(9 * LEASE).await;
    assert_eq!(granted_soon(&*store).await, []);
}
