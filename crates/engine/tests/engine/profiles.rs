//! Profiles of destinations: which keys and headers a request has, when they are read, and what happens if they cannot be.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use posthaste_domain::seal::MasterKeys;
use posthaste_domain::signature::{EndpointKeys, EndpointSecret};
use posthaste_domain::{CustomHeaders, DeliveryStatus, EventId, Lease, LeaseTerms, Outcome, Timestamp};
use posthaste_engine::{
    Engine, LocalShortage, Ports, Runtimes, SECRETS_LEARNED_WITHIN, Sender, Settings, SharedProfiles,
};
use posthaste_store::{KeyGrace, Store as _};
use posthaste_store_memory::MemoryStore;

use crate::fixture::{App, Call, Fixture, Reply, millis, numbered_key, secs, settings};
use crate::logs::Log;

/// A request, with the numbers of the keys that sign it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SignedRequest {
    event_id: EventId,
    wire_id: EventId,
    keys: Vec<u8>,
    headers: CustomHeaders,
}

/// Records with what each request is signed, and accepts it, after the fixture's receiver has answered.
struct ProfileSender {
    profiles: SharedProfiles,
    receiver: Arc<dyn Sender>,
    requests: Mutex<Vec<SignedRequest>>,
}

#[async_trait]
impl Sender for ProfileSender {
    async fn send(&self, lease: &Lease, now: Timestamp, timeout: Duration) -> Result<Outcome, LocalShortage> {
        let profile = self.profiles.for_lease(lease);
        assert_eq!(profile.is_some(), lease.profile_version > 0, "a profile is held for the request");
        let keys = profile.iter().filter_map(|profile| profile.keys()).flat_map(EndpointKeys::keys);
        let number = |key: &EndpointSecret| {
            (0..9).find(|number| numbered_key(*number) == *key).expect("a key of this test")
        };
        let request = SignedRequest {
            event_id: lease.event_id.clone(),
            wire_id: lease.wire_id.clone(),
            keys: keys.map(number).collect(),
            headers: profile.as_ref().map(|profile| profile.headers().clone()).unwrap_or_default(),
        };
        self.requests.lock().expect("one thread").push(request);
        self.receiver.send(lease, now, timeout).await
    }
}

impl ProfileSender {
    fn requests(&self) -> Vec<SignedRequest> {
        self.requests.lock().expect("one thread").clone()
    }

    fn keys(&self) -> Vec<Vec<u8>> {
        self.requests().into_iter().map(|request| request.keys).collect()
    }
}

fn ports(fixture: &Fixture, master_keys: MasterKeys) -> (Ports, Arc<ProfileSender>) {
    let profiles = SharedProfiles::new(Arc::new(master_keys));
    let receiver = Arc::clone(&fixture.receiver) as _;
    let sender = ProfileSender { profiles: profiles.clone(), receiver, requests: Mutex::default() };
    let sender = Arc::new(sender);
    (Ports { sender: Arc::clone(&sender) as _, profiles, ..fixture.ports() }, sender)
}

fn start(fixture: &Fixture, change: impl FnOnce(&mut Settings)) -> (Engine, Arc<ProfileSender>) {
    let (ports, sender) = ports(fixture, MasterKeys::none());
    (Engine::start(settings(change), ports, &Runtimes::current()).expect("valid settings"), sender)
}

fn master_keys() -> MasterKeys {
    MasterKeys::parse(&format!("k1:{}=", "A".repeat(43))).expect("a valid master key")
}

#[tokio::test(start_paused = true)]
async fn each_endpoint_is_signed_with_its_own_keys_and_a_direct_event_with_none() {
    let fixture = Fixture::new();
    let app = App::create(&fixture).await;
    for key in 1..=3 {
        app.add_endpoint(&fixture, &format!("ep{key}"), key).await;
    }
    let (_engine, sender) = start(&fixture, |_| {});
    let published = app.publish(&fixture).await;
    assert_eq!(published.event_count, 3);
    fixture.enqueue("direct", 1).await;
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    let mut requests = sender.requests();
    requests.sort_by_key(|request| request.keys.clone());
    assert_eq!(
        requests.iter().map(|it| it.keys.clone()).collect::<Vec<_>>(),
        [vec![], vec![1], vec![2], vec![3]]
    );
    assert_eq!(requests[0].wire_id, requests[0].event_id, "a direct event has one id");
    for request in &requests[1..] {
        assert_eq!(request.wire_id, requests[1].wire_id, "all endpoints see the id of the message");
        assert!(request.event_id.as_str().starts_with(request.wire_id.as_str()));
        assert_ne!(request.event_id, request.wire_id);
    }
    assert_eq!(fixture.test_store().calls(Call::Endpoints), 1, "one call reads the profiles of a claim");
}

#[tokio::test(start_paused = true)]
async fn a_profile_is_read_once_per_version_and_never_for_direct_events() {
    let fixture = Fixture::new();
    let app = App::create(&fixture).await;
    let endpoint = app.add_endpoint(&fixture, "ep", 1).await;
    let (_engine, sender) = start(&fixture, |_| {});
    fixture.enqueue("direct", 50).await;
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    assert_eq!(fixture.test_store().calls(Call::Endpoints), 0);
    // Claims list the endpoint as updated for some seconds after it was added.
    fixture.advance(secs(30)).await;
    for _ in 0..20 {
        app.publish(&fixture).await;
        fixture.wait_until_all(DeliveryStatus::Delivered).await;
        fixture.advance(secs(7)).await;
    }
    assert_eq!(fixture.test_store().calls(Call::Endpoints), 1);
    let headers = CustomHeaders::new([("X-Team".to_owned(), "a".to_owned())]).expect("a valid header");
    let sealed = app.seal(&headers.encode());
    let changed = fixture.memory.endpoints().set_headers(endpoint.destination(), None, Some(&sealed)).await;
    changed.expect("the store is up");
    app.publish(&fixture).await;
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    assert_eq!(fixture.test_store().calls(Call::Endpoints), 2);
    assert_eq!(sender.requests().pop().map(|request| request.headers), Some(headers));
}

#[tokio::test(start_paused = true)]
async fn a_rotation_reaches_events_that_are_claimed_already_and_the_old_key_signs_until_it_retires() {
    let fixture = Fixture::new();
    let app = App::create(&fixture).await;
    let endpoint = app.add_endpoint(&fixture, "ep", 1).await;
    // One request at a time, each of a second: the others are claimed, and wait.
    fixture.receiver.always_reply("ep", Reply::After(secs(1), 200));
    let (_engine, sender) = start(&fixture, |settings| {
        (settings.per_destination, settings.window_start) = (1, 1);
        settings.lease = LeaseTerms::new(secs(300)).expect("long enough");
    });
    for _ in 0..20 {
        app.publish(&fixture).await;
    }
    fixture.wait_until("a request is sent", |_| !sender.requests().is_empty()).await;
    let before = sender.requests().len();
    let grace = KeyGrace::new(secs(600)).expect("a valid grace period");
    app.rotate(&fixture, endpoint.destination(), 2, grace).await;
    fixture.advance(SECRETS_LEARNED_WITHIN).await;
    let learned = sender.requests().len();
    assert!(before < learned && learned < 20, "requests wait while the key is rotated");
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    assert!(sender.keys()[learned..].iter().all(|keys| *keys == [2, 1]), "{:?}", sender.keys());
    fixture.advance(secs(600)).await;
    app.publish(&fixture).await;
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    assert_eq!(sender.keys().pop(), Some(vec![2]), "the old key has retired");
}

#[tokio::test(start_paused = true)]
async fn a_profile_is_read_again_if_the_claim_of_the_event_took_long() {
    let fixture = Fixture::new();
    let app = App::create(&fixture).await;
    let endpoint = app.add_endpoint(&fixture, "ep", 1).await;
    let (_engine, sender) =
        start(&fixture, |settings| settings.lease = LeaseTerms::new(secs(300)).expect("long enough"));
    app.publish(&fixture).await;
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    // The lease has the version before the rotation, and its claim arrives long after it.
    fixture.test_store().set_claim_latency(secs(20));
    app.publish(&fixture).await;
    let is_leased =
        |memory: &MemoryStore| memory.with_state(|state| state.rows.values().any(|row| row.lease.is_some()));
    fixture.wait_until("the event is leased", is_leased).await;
    app.rotate(&fixture, endpoint.destination(), 2, KeyGrace::DEFAULT).await;
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    assert_eq!(sender.keys(), [vec![1], vec![2, 1]]);
}

#[tokio::test(start_paused = true)]
async fn events_whose_keys_cannot_be_opened_are_released_without_an_attempt_and_without_spinning() {
    let (log, _guard) = Log::capture();
    let fixture = Fixture::new();
    let app = App::create_sealed(&fixture, master_keys()).await;
    app.add_endpoint(&fixture, "ep", 1).await;
    let (_engine, sender) = start(&fixture, |settings| settings.expire_after = None);
    for _ in 0..30 {
        app.publish(&fixture).await;
    }
    fixture.advance(secs(3_600)).await;
    assert!(sender.requests().is_empty());
    let (claims, attempts, lost) = fixture.memory.with_state(|state| {
        let rows = state.rows.values();
        rows.fold((0, 0, 0), |sum, row| (sum.0 + row.claims, sum.1 + row.attempts, sum.2 + row.lost_leases))
    });
    assert_eq!((attempts, lost), (0, 0));
    assert!(claims < 30 + 120, "{claims} leases were granted in vain");
    assert!(fixture.test_store().calls(Call::Endpoints) < 120);
    let line = log.line_with("the keys and headers of their destination cannot be read");
    assert!(line.contains("k1") && line.contains("master_keys"), "{line}");
    let lines = log.count("the keys and headers of their destination cannot be read");
    assert!((1..=61).contains(&lines), "{lines} lines in an hour");
    let held =
        fixture.memory.with_state(|state| state.rows.values().filter(|row| row.lease.is_some()).count());
    assert_eq!(held, 0, "no lease stays behind");
}

#[tokio::test(start_paused = true)]
async fn other_events_are_sent_while_the_keys_of_an_endpoint_cannot_be_opened() {
    let fixture = Fixture::new();
    let sealed = App::create_sealed(&fixture, master_keys()).await;
    sealed.add_endpoint(&fixture, "sealed", 1).await;
    let clear = App::create(&fixture).await;
    clear.add_endpoint(&fixture, "clear", 2).await;
    let (_engine, sender) = start(&fixture, |_| {});
    for _ in 0..10 {
        sealed.publish(&fixture).await;
        clear.publish(&fixture).await;
    }
    fixture.enqueue("direct", 10).await;
    fixture.advance(millis(1_100)).await;
    let sent = |keys: &[u8]| sender.keys().iter().filter(|sent| *sent == keys).count();
    assert_eq!((sent(&[2]), sent(&[]), sent(&[1])), (10, 10, 0));
}

#[tokio::test(start_paused = true)]
async fn events_are_sent_soon_after_the_store_returns_profiles_again() {
    let fixture = Fixture::new();
    let app = App::create(&fixture).await;
    app.add_endpoint(&fixture, "ep", 1).await;
    fixture.test_store().fail(&[Call::Endpoints]);
    let (_engine, sender) = start(&fixture, |_| {});
    for _ in 0..30 {
        app.publish(&fixture).await;
    }
    fixture.advance(secs(30)).await;
    assert!(sender.requests().is_empty());
    fixture.test_store().recover();
    let recovered_at = fixture.monotonic();
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    let took = fixture.monotonic() - recovered_at;
    assert!(took < secs(40), "the events took {took:?}");
    assert_eq!(sender.keys(), vec![vec![1]; 30]);
    let attempts: Vec<u32> =
        fixture.memory.with_state(|state| state.rows.values().map(|row| row.attempts).collect());
    assert_eq!(attempts, [1; 30]);
}

#[tokio::test(start_paused = true)]
async fn a_worker_with_the_master_key_opens_what_is_sealed_and_a_panic_of_the_store_costs_no_attempt() {
    let fixture = Fixture::new();
    let app = App::create_sealed(&fixture, master_keys()).await;
    app.add_endpoint(&fixture, "ep", 1).await;
    fixture.test_store().panic_once(Call::Endpoints);
    let (ports, sender) = ports(&fixture, master_keys());
    let _engine = Engine::start(settings(|_| {}), ports, &Runtimes::current()).expect("valid settings");
    app.publish(&fixture).await;
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    assert_eq!(sender.keys(), [[1]]);
    let attempts: Vec<u32> =
        fixture.memory.with_state(|state| state.rows.values().map(|row| row.attempts).collect());
    assert_eq!(attempts, [1]);
}

#[tokio::test(start_paused = true)]
async fn a_single_cycle_signs_with_the_keys_of_the_endpoint_and_ends_if_they_cannot_be_opened() {
    let fixture = Fixture::new();
    let app = App::create_sealed(&fixture, master_keys()).await;
    app.add_endpoint(&fixture, "ep", 1).await;
    app.publish(&fixture).await;
    for (keys, delivered) in [(MasterKeys::none(), 0), (master_keys(), 1)] {
        let (ports, sender) = ports(&fixture, keys);
        let report = Engine::run_once(settings(|_| {}), ports, &Runtimes::current()).await;
        assert_eq!(report.expect("the store is up").delivered_count, delivered);
        assert_eq!(sender.requests().len(), usize::try_from(delivered).expect("a small number"));
    }
}
