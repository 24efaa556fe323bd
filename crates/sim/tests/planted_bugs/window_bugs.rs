//! Engines with one known bug each in the windows and slots that isolate receivers from one another.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use posthaste_domain::{ErrorClass, Lease, Outcome, Timestamp};
use posthaste_engine::{LocalShortage, Sender, Settings};
use posthaste_sim::PlantedBug;
use posthaste_store::{ClaimRequest, ClaimResponse, LayeredStore, PaceSlots, Store, StoreError, StoreLayer};

type EnginePorts = (Arc<dyn Store>, Arc<dyn Sender>);

/// Gives every receiver its largest window from the start.
pub(crate) struct WindowsAreFixed;

impl PlantedBug for WindowsAreFixed {
    fn settings(&self, settings: Settings) -> Settings {
        Settings { window_start: settings.per_host(), ..settings }
    }

    fn engine(&self, store: Arc<dyn Store>, sender: Arc<dyn Sender>) -> EnginePorts {
        (store, Arc::new(HiddenTimeouts(sender)))
    }
}

/// Never makes a window smaller, because timeouts say nothing about their receiver.
pub(crate) struct WindowsNeverShrink;

impl PlantedBug for WindowsNeverShrink {
    fn engine(&self, store: Arc<dyn Store>, sender: Arc<dyn Sender>) -> EnginePorts {
        (store, Arc::new(HiddenTimeouts(sender)))
    }
}

/// Reports a timeout as a failure of the sender itself.
struct HiddenTimeouts(Arc<dyn Sender>);

#[async_trait]
impl Sender for HiddenTimeouts {
    async fn send(&self, lease: &Lease, now: Timestamp, timeout: Duration) -> Result<Outcome, LocalShortage> {
        let outcome = self.0.send(lease, now, timeout).await?;
        let timed_out = outcome.error_class() == Some(ErrorClass::Timeout);
        Ok(if timed_out { Outcome::no_response(ErrorClass::Panic, "hidden") } else { outcome })
    }
}

/// Lets receivers that do not answer use all slots.
pub(crate) struct NoSlotIsKeptForPromptReceivers;

impl PlantedBug for NoSlotIsKeptForPromptReceivers {
    fn engine(&self, store: Arc<dyn Store>, sender: Arc<dyn Sender>) -> EnginePorts {
        (Arc::new(LayeredStore(ClaimForAnyPace(store))), sender)
    }
}

struct ClaimForAnyPace(Arc<dyn Store>);

#[async_trait]
impl StoreLayer for ClaimForAnyPace {
    fn inner(&self) -> &dyn Store {
        &*self.0
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        self.0.claim(&ClaimRequest { pace_slots: PaceSlots::UNLIMITED, ..request.clone() }).await
    }
}

/// Judges a host only when a request has ended.
pub(crate) struct RequestsNeverCountAsSlow;

impl PlantedBug for RequestsNeverCountAsSlow {
    fn settings(&self, settings: Settings) -> Settings {
        Settings { slow_after: Duration::from_secs(3_600), ..settings }
    }
}

/// Loses a slot with every tenth claim.
pub(crate) struct SlotsLeak;

impl PlantedBug for SlotsLeak {
    fn engine(&self, store: Arc<dyn Store>, sender: Arc<dyn Sender>) -> EnginePorts {
        (Arc::new(LayeredStore(LeakySlots { store, claims: AtomicUsize::new(0) })), sender)
    }
}

struct LeakySlots {
    store: Arc<dyn Store>,
    claims: AtomicUsize,
}

#[async_trait]
impl StoreLayer for LeakySlots {
    fn inner(&self) -> &dyn Store {
        &*self.store
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        let lost = self.claims.fetch_add(1, Ordering::Relaxed) / 10;
        let limit = request.limit.saturating_sub(lost);
        self.store.claim(&ClaimRequest { limit, ..request.clone() }).await
    }
}
