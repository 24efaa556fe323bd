//! The heartbeat renews a lease while its request is in flight and until its settle has committed, and no longer.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use crate::fixture::{Call, Fixture, Reply, millis, secs, settings};
use async_trait::async_trait;
use posthaste_domain::{DeliveryStatus, Lease, LeaseTerms, Outcome, Timestamp, WorkerId};
use posthaste_engine::{Engine, LocalShortage, Runtimes, Sender, Settings};

/// Sets a lease of three seconds, and so a heartbeat every second.
fn short_lease(settings: &mut Settings) {
    settings.lease = LeaseTerms::new(secs(3)).expect("long enough");
    settings.timeout = secs(60);
}

fn second_worker(settings: &mut Settings) {
    short_lease(settings);
    settings.worker_id = WorkerId::new("worker-b").expect("visible ASCII");
    settings.lease_owner = WorkerId::with_boot_id("worker-b", 2).expect("visible ASCII");
}

#[tokio::test(start_paused = true)]
async fn lease_names_its_owner_and_history_names_the_worker() {
    let fixture = Fixture::new();
    let id = fixture.enqueue("slow", 1).await.remove(0);
    fixture.receiver.always_reply("slow", Reply::After(secs(20), 200));
    let _engine = fixture.start(second_worker);
    fixture.wait_until("the request is sent", |_| fixture.receiver.requests_to("slow") == 1).await;
    let owner = fixture.event(&id).await.event.lease_owner.expect("it is leased");
    assert_eq!(owner.as_str(), "worker-b-0000000000000002");
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    assert_eq!(fixture.event(&id).await.history[0].worker.as_str(), "worker-b");
}

#[tokio::test(start_paused = true)]
async fn s3_flow_1_event_sent_for_longer_than_its_lease_is_not_taken_over() {
    let fixture = Fixture::new();
    let id = fixture.enqueue("slow", 1).await.remove(0);
    fixture.receiver.always_reply("slow", Reply::After(secs(20), 200));
    let _engines = [fixture.start(short_lease), fixture.start(second_worker)];
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    assert_eq!(fixture.receiver.requests_to("slow"), 1);
    assert_eq!(fixture.event(&id).await.event.claims, 1);
    assert!(
        fixture.test_store().calls(Call::Renew) >= 18,
        "{} renewals",
        fixture.test_store().calls(Call::Renew)
    );
}

#[tokio::test(start_paused = true)]
async fn s3_flow_2_the_heartbeat_covers_retries_and_failures_too() {
    let fixture = Fixture::new();
    let id = fixture.enqueue("slow", 1).await.remove(0);
    fixture.receiver.always_reply("slow", Reply::After(secs(10), 500));
    let _engines = [fixture.start(short_lease), fixture.start(second_worker)];
    fixture.wait_until_all(DeliveryStatus::Failed).await;
    let event = fixture.event(&id).await.event;
    assert_eq!((event.attempts, event.claims), (5, 5), "no lease was lost");
}

#[tokio::test(start_paused = true)]
async fn s3_flow_3_a_lost_lease_lets_the_attempt_finish_and_fences_its_result() {
    let fixture = Fixture::new();
    let id = fixture.enqueue("slow", 1).await.remove(0);
    fixture.receiver.script("slow", [Reply::After(secs(20), 200), Reply::After(secs(40), 200)]);
    let first = fixture.start(short_lease);
    fixture.wait_until("the request is sent", |_| fixture.receiver.requests_to("slow") == 1).await;
    // The first worker's lease expires early, as if the store's clock had jumped, and a second worker takes over.
    fixture.memory.with_state(|state| {
        let key = state.find_key(&id).expect("it was enqueued");
        let row = state.row_mut(key).expect("it is there");
        row.lease.as_mut().expect("it is leased").until = Default::default();
    });
    let _second = fixture.start(second_worker);
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    let detail = fixture.event(&id).await;
    assert_eq!(fixture.receiver.requests_to("slow"), 2);
    let results = detail.history.iter().map(|attempt| (attempt.worker.as_str(), attempt.applied));
    assert_eq!(results.collect::<Vec<_>>(), [("worker-a", false), ("worker-b", true)]);
    assert_eq!((detail.event.attempts, detail.event.claims), (1, 2), "the first result changed nothing");
    assert_eq!(first.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn heartbeat_continues_until_the_settle_has_committed() {
    let fixture = Fixture::new();
    let id = fixture.enqueue("up", 1).await.remove(0);
    fixture.test_store().fail(&[Call::Settle]);
    let _engines = [fixture.start(short_lease), fixture.start(second_worker)];
    fixture.advance(secs(30)).await;
    fixture.test_store().recover();
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    assert_eq!(fixture.receiver.requests_to("up"), 1, "no other worker sent the event");
    assert_eq!(fixture.event(&id).await.event.claims, 1);
}

#[tokio::test(start_paused = true)]
async fn s3_no_leak_every_heartbeat_ends_with_its_delivery() {
    let fixture = Fixture::new();
    for (host, reply) in [
        ("ok", Reply::After(secs(5), 200)),
        ("down", Reply::After(secs(5), 500)),
        ("panics", Reply::Panic),
        ("rejected", Reply::After(secs(5), 200)),
    ] {
        fixture.receiver.always_reply(host, reply);
        fixture.enqueue(host, 1).await;
    }
    let rejected = posthaste_domain::EventId::new("rejected-0").unwrap();
    fixture.test_store().reject_settle_of(&rejected);
    let _engine = fixture.start(short_lease);
    fixture.wait_until("all requests are sent", |_| fixture.receiver.requests().len() == 4).await;
    fixture.advance(secs(6)).await;
    let renewals = fixture.test_store().calls(Call::Renew);
    assert!(renewals >= 4, "{renewals} renewals while the requests were in flight");
    // Only the rejected event is still leased: its result is kept until it is written.
    let leased =
        || fixture.memory.with_state(|state| state.rows.values().filter(|row| row.lease.is_some()).count());
    assert_eq!(leased(), 1);
    fixture.test_store().recover();
    fixture.wait_until("the rejected result is written", |_| leased() == 0).await;
    assert_eq!(fixture.receiver.requests_to("rejected"), 1);
    let renewals_after_end = fixture.test_store().calls(Call::Renew);
    fixture.advance(millis(1_900)).await;
    assert_eq!(fixture.test_store().calls(Call::Renew), renewals_after_end, "no lease is renewed any more");
}

#[tokio::test(start_paused = true)]
async fn an_outage_shorter_than_the_lease_costs_no_lease() {
    let fixture = Fixture::new();
    let id = fixture.enqueue("slow", 1).await.remove(0);
    fixture.receiver.always_reply("slow", Reply::After(secs(20), 200));
    let _engines = [fixture.start(short_lease), fixture.start(second_worker)];
    fixture.advance(secs(5)).await;
    fixture.test_store().fail(&[Call::Renew]);
    fixture.advance(millis(1_700)).await;
    fixture.test_store().recover();
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    assert_eq!(fixture.event(&id).await.event.claims, 1);
}

#[tokio::test(start_paused = true)]
async fn rejected_renewal_does_not_affect_others_in_its_batch() {
    let fixture = Fixture::new();
    let ids = fixture.enqueue("slow", 3).await;
    fixture.receiver.always_reply("slow", Reply::After(secs(20), 200));
    fixture.test_store().reject_renewal_of(&ids[1]);
    let _engines = [fixture.start(short_lease), fixture.start(second_worker)];
    fixture.advance(secs(15)).await;
    let claims = |id: &posthaste_domain::EventId| {
        let id = id.clone();
        let fixture = &fixture;
        async move { fixture.event(&id).await.event.claims }
    };
    assert_eq!((claims(&ids[0]).await, claims(&ids[2]).await), (1, 1), "the other leases are kept");
    assert!(claims(&ids[1]).await > 1, "the event whose renewal was rejected is taken over");
}

#[tokio::test(start_paused = true)]
async fn many_leases_are_renewed_by_few_calls() {
    let fixture = Fixture::new();
    // Two hosts: a destination that has not answered gets half of the window of its host.
    for host in ["slow", "slower"] {
        fixture.enqueue(host, 300).await;
        fixture.receiver.always_reply(host, Reply::After(millis(1_500), 200));
    }
    let _engine = fixture.start(|settings| {
        short_lease(settings);
        settings.concurrency = 1_200;
        settings.per_destination = 600;
    });
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    assert_eq!(fixture.test_store().calls(Call::Renew), 2, "600 leases in two batches, once");
}

#[tokio::test(start_paused = true)]
async fn a_dead_workers_event_is_claimed_within_its_lease_and_a_second() {
    let fixture = Fixture::new();
    fixture.enqueue("slow", 1).await;
    fixture.receiver.script("slow", [Reply::Hang]);
    let first = fixture.start(short_lease);
    fixture.wait_until("the request is sent", |_| fixture.receiver.requests_to("slow") == 1).await;
    drop(first);
    let died_at = fixture.monotonic();
    let _second = fixture.start(second_worker);
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    let took = fixture.receiver.requests()[1].0 - died_at;
    assert!(took <= secs(3 + 1), "taken over after {took:?}");
}

/// A sender that blocks its thread, as a long computation would, until the channel gets a message.
struct BlockingSender(std::sync::Mutex<mpsc::Receiver<()>>);

#[async_trait]
impl Sender for BlockingSender {
    async fn send(&self, _: &Lease, _: Timestamp, _: Duration) -> Result<Outcome, LocalShortage> {
        let blocked = self.0.lock().expect("one sender");
        blocked.recv().expect("the test unblocks the sender");
        Ok(Outcome::response(200, None, b""))
    }
}

/// The only test in real time: the heartbeat runs on a second runtime, in a thread of its own.
#[test]
fn a_sender_that_blocks_its_runtime_does_not_starve_the_heartbeat() {
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
    let (dispatch, heartbeat) = (runtime(), runtime());
    let (unblock, blocked) = mpsc::channel();
    let fixture = dispatch.block_on(async { Fixture::new() });
    dispatch.block_on(fixture.enqueue("up", 1));
    let mut ports = fixture.ports();
    ports.sender = Arc::new(BlockingSender(std::sync::Mutex::new(blocked)));
    let runtimes = Runtimes { dispatch: dispatch.handle().clone(), heartbeat: heartbeat.handle().clone() };
    let settings = settings(|settings| settings.lease = LeaseTerms::new(secs(3)).expect("long enough"));
    let engine = Engine::start(settings, ports, &runtimes).unwrap();
    // The dispatch runtime's only thread is blocked, so wait for renewals on the other runtime.
    heartbeat.block_on(
        fixture.wait_until("the lease has been renewed", |_| fixture.test_store().calls(Call::Renew) > 3),
    );
    unblock.send(()).unwrap();
    let drained = heartbeat.block_on(engine.drain(secs(30)));
    assert_eq!((drained.released, drained.unreleased), (0, 0));
    fixture.memory.with_state(|state| {
        let row = state.rows.values().next().unwrap();
        assert_eq!((row.status, row.claims), (DeliveryStatus::Delivered, 1));
    });
}
