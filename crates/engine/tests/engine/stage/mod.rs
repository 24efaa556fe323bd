//! The stage that engine tests play on: a memory store and a scripted receiver under paused time.

mod receiver;
mod store;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use posthaste_domain::{
    ClaimId, DeliveryStatus, EventId, NewEvent, NewEventSpec, RandomDraw, Timestamp, WorkerId,
};
use posthaste_engine::{Clock, Engine, Ports, RandomSource, Runtimes, Settings, TokioClock};
use posthaste_store::{EnqueueRequest, EventDetail, LayeredStore, Store, StoreClock};
use posthaste_store_memory::MemoryStore;

pub(crate) use receiver::{Receiver, Reply};
pub(crate) use store::{ALL_CALLS, Call, WatchedStore};

/// The middle of every jitter window, and claims by number.
#[derive(Default)]
pub(crate) struct Middle(AtomicU64);

impl RandomSource for Middle {
    fn draw(&self) -> RandomDraw {
        RandomDraw(1 << 63)
    }

    fn new_claim_id(&self) -> ClaimId {
        // Two engines share the store: this object's address tells their claims apart.
        let (engine, number) =
            (std::ptr::from_ref(self).addr() as u64, self.0.fetch_add(1, Ordering::SeqCst));
        ClaimId::random(((u128::from(engine) << 64) | u128::from(number)).to_be_bytes())
    }
}

/// The store's clock runs with the paused runtime.
struct RuntimeClock(TokioClock);

impl StoreClock for RuntimeClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_secs(1_800_000_000).after(self.0.monotonic())
    }
}

pub(crate) struct Stage {
    pub(crate) memory: MemoryStore,
    pub(crate) store: Arc<LayeredStore<WatchedStore>>,
    pub(crate) receiver: Arc<Receiver>,
    pub(crate) clock: Arc<TokioClock>,
}

impl Stage {
    pub(crate) fn set() -> Self {
        let memory = MemoryStore::new(Arc::new(RuntimeClock(TokioClock::start())), 42);
        Self {
            store: Arc::new(LayeredStore(WatchedStore::over(memory.clone()))),
            memory,
            receiver: Arc::new(Receiver::default()),
            clock: Arc::new(TokioClock::start()),
        }
    }

    /// The door to the store, to be watched and shut.
    pub(crate) fn door(&self) -> &WatchedStore {
        &self.store.0
    }

    pub(crate) fn ports(&self) -> Ports {
        Ports {
            store: Arc::clone(&self.store) as _,
            sender: Arc::clone(&self.receiver) as _,
            clock: Arc::clone(&self.clock) as _,
            random: Arc::new(Middle::default()),
            observer: Arc::new(()),
        }
    }

    pub(crate) fn start(&self, change: impl FnOnce(&mut Settings)) -> Engine {
        Engine::start(settings(change), self.ports(), &Runtimes::current()).expect("valid settings")
    }

    /// Enqueues events to `https://<host>.test/`, numbered in their ids.
    pub(crate) async fn enqueue(&self, host: &str, count: usize) -> Vec<EventId> {
        let events: Vec<NewEvent> = (0..count).map(|number| event(host, number)).collect();
        let ids = events.iter().filter_map(|event| event.event_id().cloned()).collect();
        let request = EnqueueRequest { events, idempotency: None };
        self.memory.enqueue(request).await.expect("the events have unused ids");
        ids
    }

    pub(crate) async fn event(&self, id: &EventId) -> EventDetail {
        self.memory.event(id).await.expect("an event that was enqueued")
    }

    pub(crate) fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }

    /// Waits, in simulated time, until a fact holds; gives up after ten hours.
    pub(crate) async fn until(&self, what: &str, mut holds: impl FnMut(&MemoryStore) -> bool) {
        let deadline = self.monotonic() + Duration::from_secs(36_000);
        while !holds(&self.memory) {
            assert!(self.monotonic() < deadline, "never came true: {what}");
            self.clock.sleep(Duration::from_millis(5)).await;
        }
    }

    pub(crate) async fn until_all(&self, status: DeliveryStatus) {
        let all = |memory: &MemoryStore| {
            memory.with_state(|state| state.rows.values().all(|row| row.status == status))
        };
        self.until(status.as_str(), all).await;
    }

    pub(crate) async fn pass(&self, time: Duration) {
        self.clock.sleep(time).await;
    }
}

pub(crate) fn settings(change: impl FnOnce(&mut Settings)) -> Settings {
    let mut settings = Settings::new(WorkerId::new("worker-a").expect("visible ASCII"));
    change(&mut settings);
    settings
}

pub(crate) fn event(host: &str, number: usize) -> NewEvent {
    let spec = NewEventSpec {
        destination_url: format!("https://{host}.test/"),
        event_type: "test".into(),
        payload: Bytes::from_static(b"{}"),
        event_id: Some(format!("{host}-{number}")),
        webhook_id: Some("hook".into()),
        session_id: Some("session".into()),
        ..NewEventSpec::default()
    };
    NewEvent::accept(spec, 1_024, 5).expect("a valid event")
}

pub(crate) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
