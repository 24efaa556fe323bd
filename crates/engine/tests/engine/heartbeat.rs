//! Leases are renewed while a request is in flight, until its settle has committed, and not a moment longer.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use crate::stage::{Call, Reply, Stage, millis, secs, settings};
use async_trait::async_trait;
use posthaste_domain::{DeliveryStatus, Lease, LeaseTerms, Outcome, WorkerId};
use posthaste_engine::{Engine, Runtimes, Sender, Settings};

/// A lease of three seconds: a heartbeat every second.
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
async fn leases_are_held_under_the_owner_and_histories_name_the_worker() {
    let stage = Stage::set();
    let id = stage.enqueue("slow", 1).await.remove(0);
    stage.receiver.always("slow", Reply::After(secs(20), 200));
    let _engine = stage.start(second_worker);
    stage.until("it is being sent", |_| stage.receiver.requests_to("slow") == 1).await;
    let owner = stage.event(&id).await.event.lease_owner.expect("it is leased");
    assert_eq!(owner.as_str(), "worker-b-0000000000000002");
    stage.until_all(DeliveryStatus::Delivered).await;
    assert_eq!(stage.event(&id).await.history[0].worker.as_str(), "worker-b");
}

#[tokio::test(start_paused = true)]
async fn s3_flow_1_a_send_longer_than_its_lease_is_not_stolen() {
    let stage = Stage::set();
    let id = stage.enqueue("slow", 1).await.remove(0);
    stage.receiver.always("slow", Reply::After(secs(20), 200));
    let _engines = [stage.start(short_lease), stage.start(second_worker)];
    stage.until_all(DeliveryStatus::Delivered).await;
    assert_eq!(stage.receiver.requests_to("slow"), 1);
    assert_eq!(stage.event(&id).await.event.claims, 1);
    assert!(stage.door().calls(Call::Renew) >= 18, "{} renewals", stage.door().calls(Call::Renew));
}

#[tokio::test(start_paused = true)]
async fn s3_flow_2_the_heartbeat_covers_retries_and_failures_too() {
    let stage = Stage::set();
    let id = stage.enqueue("slow", 1).await.remove(0);
    stage.receiver.always("slow", Reply::After(secs(10), 500));
    let _engines = [stage.start(short_lease), stage.start(second_worker)];
    stage.until_all(DeliveryStatus::Failed).await;
    let event = stage.event(&id).await.event;
    assert_eq!((event.attempts, event.claims), (5, 5), "no lease was lost on the way");
}

#[tokio::test(start_paused = true)]
async fn s3_flow_3_a_lost_lease_lets_the_attempt_finish_and_fences_its_result() {
    let stage = Stage::set();
    let id = stage.enqueue("slow", 1).await.remove(0);
    stage.receiver.script("slow", [Reply::After(secs(20), 200), Reply::After(secs(40), 200)]);
    let first = stage.start(short_lease);
    stage.until("it is being sent", |_| stage.receiver.requests_to("slow") == 1).await;
    // The first worker's lease is taken away as by a clock that ran ahead, and a second worker takes over.
    stage.memory.with_state(|state| {
        let key = state.key_of(&id).expect("it was enqueued");
        let row = state.row_mut(key).expect("it is there");
        row.lease.as_mut().expect("it is leased").until = Default::default();
    });
    let _second = stage.start(second_worker);
    stage.until_all(DeliveryStatus::Delivered).await;
    let detail = stage.event(&id).await;
    assert_eq!(stage.receiver.requests_to("slow"), 2);
    assert_eq!(detail.history.len(), 1, "the first result was not written");
    assert_eq!(detail.history[0].worker.as_str(), "worker-b");
    assert_eq!(first.in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_heartbeat_goes_on_until_the_settle_has_committed() {
    let stage = Stage::set();
    let id = stage.enqueue("up", 1).await.remove(0);
    stage.door().fail(&[Call::Settle]);
    let _engines = [stage.start(short_lease), stage.start(second_worker)];
    stage.pass(secs(30)).await;
    stage.door().heal();
    stage.until_all(DeliveryStatus::Delivered).await;
    assert_eq!(stage.receiver.requests_to("up"), 1, "nobody else sent it meanwhile");
    assert_eq!(stage.event(&id).await.event.claims, 1);
}

#[tokio::test(start_paused = true)]
async fn s3_no_leak_of_a_heartbeat_however_its_delivery_ends() {
    let stage = Stage::set();
    for (host, reply) in [
        ("ok", Reply::After(secs(5), 200)),
        ("down", Reply::After(secs(5), 500)),
        ("panics", Reply::Panic),
        ("refused", Reply::After(secs(5), 200)),
    ] {
        stage.receiver.always(host, reply);
        stage.enqueue(host, 1).await;
    }
    let refused = posthaste_domain::EventId::new("refused-0").unwrap();
    stage.door().refuse_settle_of(&refused);
    let _engine = stage.start(short_lease);
    stage.until("all were sent", |_| stage.receiver.requests().len() == 4).await;
    stage.pass(secs(6)).await;
    let renewals = stage.door().calls(Call::Renew);
    assert!(renewals >= 4, "{renewals} renewals while they were in flight");
    // Only the refused one is leased now, and nobody renews that.
    let in_flight_no_more = stage.door().calls(Call::Renew);
    stage.pass(millis(1_900)).await;
    assert_eq!(stage.door().calls(Call::Renew), in_flight_no_more, "nothing is renewed any more");
    stage.until("the refused one is sent again", |_| stage.receiver.requests_to("refused") == 2).await;
    stage.memory.with_state(|state| {
        let leased = state.rows.values().filter(|row| row.lease.is_some()).count();
        assert_eq!(leased, 1, "only what is in flight is leased");
    });
}

#[tokio::test(start_paused = true)]
async fn an_outage_shorter_than_the_lease_costs_no_lease() {
    let stage = Stage::set();
    let id = stage.enqueue("slow", 1).await.remove(0);
    stage.receiver.always("slow", Reply::After(secs(20), 200));
    let _engines = [stage.start(short_lease), stage.start(second_worker)];
    stage.pass(secs(5)).await;
    stage.door().fail(&[Call::Renew]);
    stage.pass(millis(1_700)).await;
    stage.door().heal();
    stage.until_all(DeliveryStatus::Delivered).await;
    assert_eq!(stage.event(&id).await.event.claims, 1);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_the_store_refuses_does_not_take_others_with_it() {
    let stage = Stage::set();
    let ids = stage.enqueue("slow", 3).await;
    stage.receiver.always("slow", Reply::After(secs(20), 200));
    stage.door().refuse_renewal_of(&ids[1]);
    let _engines = [stage.start(short_lease), stage.start(second_worker)];
    stage.pass(secs(15)).await;
    let claims = |id: &posthaste_domain::EventId| {
        let id = id.clone();
        let stage = &stage;
        async move { stage.event(&id).await.event.claims }
    };
    assert_eq!((claims(&ids[0]).await, claims(&ids[2]).await), (1, 1), "the others keep their leases");
    assert!(claims(&ids[1]).await > 1, "the refused one is taken over");
}

#[tokio::test(start_paused = true)]
async fn many_leases_are_renewed_by_few_calls() {
    let stage = Stage::set();
    stage.enqueue("slow", 600).await;
    stage.receiver.always("slow", Reply::After(millis(1_500), 200));
    let _engine = stage.start(|settings| {
        short_lease(settings);
        settings.concurrency = 600;
        settings.per_destination = 600;
    });
    stage.until_all(DeliveryStatus::Delivered).await;
    assert_eq!(stage.door().calls(Call::Renew), 2, "600 leases in two batches, once");
}

#[tokio::test(start_paused = true)]
async fn a_dead_workers_event_is_claimed_within_its_lease_and_a_second() {
    let stage = Stage::set();
    stage.enqueue("slow", 1).await;
    stage.receiver.script("slow", [Reply::Hang]);
    let first = stage.start(short_lease);
    stage.until("it is being sent", |_| stage.receiver.requests_to("slow") == 1).await;
    drop(first);
    let died_at = stage.monotonic();
    let _second = stage.start(second_worker);
    stage.until_all(DeliveryStatus::Delivered).await;
    let took = stage.receiver.requests()[1].0 - died_at;
    assert!(took <= secs(3 + 1), "taken over after {took:?}");
}

/// Blocks its thread, as a sender that computes would, until it is told to go on.
struct BlockingSender(std::sync::Mutex<mpsc::Receiver<()>>);

#[async_trait]
impl Sender for BlockingSender {
    async fn send(&self, _lease: &Lease, _timeout: Duration) -> Outcome {
        let waiting = self.0.lock().expect("one sender");
        waiting.recv().expect("the test lets it go");
        Outcome::response(200, None, b"")
    }
}

/// The only test in real time: what it shows is that another thread's runtime is not held up by this one's.
#[test]
fn a_sender_that_blocks_its_runtime_does_not_starve_the_heartbeat() {
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
    let (dispatch, heartbeat) = (runtime(), runtime());
    let (go_on, waiting) = mpsc::channel();
    let stage = dispatch.block_on(async { Stage::set() });
    dispatch.block_on(stage.enqueue("up", 1));
    let mut ports = stage.ports();
    ports.sender = Arc::new(BlockingSender(std::sync::Mutex::new(waiting)));
    let runtimes = Runtimes { dispatch: dispatch.handle().clone(), heartbeat: heartbeat.handle().clone() };
    let settings = settings(|settings| settings.lease = LeaseTerms::new(secs(3)).expect("long enough"));
    let engine = Engine::start(settings, ports, &runtimes).unwrap();
    // The dispatch runtime's one thread is blocked; renewals are the fact to wait for.
    heartbeat.block_on(stage.until("the lease has been renewed", |_| stage.door().calls(Call::Renew) > 3));
    go_on.send(()).unwrap();
    let drained = heartbeat.block_on(engine.drain(secs(30)));
    assert_eq!((drained.released, drained.unreleased), (0, 0));
    stage.memory.with_state(|state| {
        let row = state.rows.values().next().unwrap();
        assert_eq!((row.status, row.claims), (DeliveryStatus::Delivered, 1));
    });
}
