//! Draining: the worker finishes or releases what it has claimed.

use crate::fixture::{ALL_CALLS, Call, Fixture, Reply, millis, secs};
use posthaste_store::Store as _;

#[tokio::test(start_paused = true)]
async fn drain_releases_leases_granted_by_a_lost_reply() {
    let fixture = Fixture::new();
    fixture.enqueue("up", 3).await;
    fixture.test_store().lose_replies(Call::Claim, 1);
    let engine = fixture.start(|_| {});
    fixture.wait_until("one claim is unanswered", |_| fixture.test_store().calls(Call::Claim) == 1).await;
    let drained = engine.drain(secs(10)).await;
    assert_eq!((drained.released, drained.unreleased), (3, 0));
    assert_eq!(fixture.memory.overview().await.unwrap().pending_ready, 3);
    assert_eq!(fixture.receiver.requests().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn drain_claims_nothing_more_and_finishes_deliveries_in_flight() {
    let fixture = Fixture::new();
    fixture.receiver.always_reply("slow", Reply::After(secs(5), 200));
    fixture.enqueue("slow", 4).await;
    let engine = fixture.start(|settings| settings.per_destination = 2);
    fixture.wait_until("two are in flight", |_| fixture.receiver.requests_to("slow") == 2).await;
    let drained = engine.drain(secs(60)).await;
    assert_eq!((drained.released, drained.unreleased), (0, 0));
    let overview = fixture.memory.overview().await.unwrap();
    assert_eq!((overview.delivered, overview.pending_ready), (2, 2));
    assert!(fixture.monotonic() < secs(10), "the drain ended when the deliveries did");
}

#[tokio::test(start_paused = true)]
async fn drain_releases_deliveries_unfinished_at_the_deadline() {
    let fixture = Fixture::new();
    fixture.receiver.always_reply("hangs", Reply::Hang);
    fixture.enqueue("hangs", 3).await;
    let engine = fixture.start(|settings| settings.timeout = secs(300));
    fixture.wait_until("all are in flight", |_| fixture.receiver.requests_to("hangs") == 3).await;
    let drained = engine.drain(secs(2)).await;
    assert_eq!((drained.released, drained.unreleased), (3, 0));
    assert_eq!(fixture.test_store().calls(Call::Release), 1, "one call released all leases");
    fixture.memory.with_state(|state| {
        for row in state.rows.values() {
            assert_eq!((row.attempts, row.lost_leases, row.lease.is_none()), (0, 0, true));
        }
    });
    assert_eq!(fixture.memory.overview().await.unwrap().pending_ready, 3);
}

#[tokio::test(start_paused = true)]
async fn drain_releases_leases_although_a_result_cannot_be_written() {
    let fixture = Fixture::new();
    fixture.receiver.always_reply("hangs", Reply::Hang);
    fixture.enqueue("hangs", 3).await;
    fixture.enqueue("up", 1).await;
    fixture.test_store().fail(&[Call::Settle]);
    let engine = fixture.start(|settings| settings.timeout = secs(300));
    fixture.wait_until("all are in flight", |_| fixture.receiver.requests().len() == 4).await;
    let began_at = fixture.monotonic();
    let drained = engine.drain(secs(10)).await;
    assert_eq!((drained.released, drained.unreleased, drained.unwritten), (4, 0, 1));
    assert!(fixture.monotonic() - began_at <= secs(10), "the deadline covers the release");
}

#[tokio::test(start_paused = true)]
async fn drain_during_an_outage_reports_unreleased_leases() {
    let fixture = Fixture::new();
    fixture.receiver.always_reply("hangs", Reply::Hang);
    fixture.enqueue("hangs", 2).await;
    let engine = fixture.start(|settings| settings.timeout = secs(300));
    fixture.wait_until("all are in flight", |_| fixture.receiver.requests().len() == 2).await;
    fixture.test_store().fail(&ALL_CALLS);
    let drained = engine.drain(secs(4)).await;
    assert_eq!((drained.released, drained.unreleased), (0, 2));
}

#[tokio::test(start_paused = true)]
async fn claim_answered_during_a_drain_is_released() {
    let fixture = Fixture::new();
    fixture.enqueue("up", 2).await;
    fixture.test_store().set_claim_latency(secs(1));
    let engine = fixture.start(|_| {});
    fixture.advance(millis(500)).await;
    let drained = engine.drain(secs(10)).await;
    assert_eq!(drained.unreleased, 0);
    assert_eq!(fixture.receiver.requests().len(), 0, "no request was sent");
    assert_eq!(fixture.memory.overview().await.unwrap().pending_ready, 2);
}
