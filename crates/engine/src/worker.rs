//! What the parts of one worker share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use posthaste_domain::{ClaimId, Roll};
use posthaste_store::Store;

use crate::circuits::Circuits;
use crate::clock::Clock;
use crate::cycle::Cycle;
use crate::heartbeat::Heartbeat;
use crate::observe::Observer;
use crate::phase::Phases;
use crate::publish::Publisher;
use crate::sender::Sender;
use crate::settings::Settings;
use crate::settle::Settler;
use crate::slots::Slots;

/// Where chance comes from.
pub trait Chance: Send + Sync + 'static {
    /// Places a delay within its jitter window.
    fn roll(&self) -> Roll;

    /// Never the same twice, in this process or any other.
    fn claim_id(&self) -> ClaimId;
}

/// The outside world, as the engine sees it.
#[derive(Clone)]
pub struct Ports {
    pub store: Arc<dyn Store>,
    pub sender: Arc<dyn Sender>,
    pub clock: Arc<dyn Clock>,
    pub chance: Arc<dyn Chance>,
    pub observer: Arc<dyn Observer>,
}

pub(crate) struct Worker {
    pub(crate) settings: Settings,
    pub(crate) ports: Ports,
    pub(crate) slots: Arc<Slots>,
    pub(crate) circuits: Arc<Circuits>,
    pub(crate) heartbeat: Arc<Heartbeat>,
    pub(crate) settler: Settler,
    pub(crate) publisher: Publisher,
    pub(crate) cycle: Cycle,
    pub(crate) phases: Phases,
    pub(crate) leftover: Leftover,
    pub(crate) claimed_at: AtomicU64,
}

impl Worker {
    /// Claiming works, or there is no slot to claim for.
    pub(crate) fn claiming_works(&self) {
        let now = self.ports.clock.monotonic().as_millis();
        self.claimed_at.store(u64::try_from(now).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// When that was last so.
    pub(crate) fn claimed_at(&self) -> Duration {
        Duration::from_millis(self.claimed_at.load(Ordering::Relaxed))
    }
}

/// Leases that are given back unused while the worker stops, or are still to be.
#[derive(Debug, Default)]
pub(crate) struct Leftover {
    released: AtomicUsize,
    owed: AtomicUsize,
}

impl Leftover {
    pub(crate) fn owe(&self, leases: usize) {
        self.owed.fetch_add(leases, Ordering::SeqCst);
    }

    pub(crate) fn forget(&self, leases: usize) {
        self.owed.fetch_sub(leases, Ordering::SeqCst);
    }

    pub(crate) fn pay(&self, leases: usize) {
        self.forget(leases);
        self.released.fetch_add(leases, Ordering::SeqCst);
    }

    pub(crate) fn released(&self) -> usize {
        self.released.load(Ordering::SeqCst)
    }

    pub(crate) fn owed(&self) -> usize {
        self.owed.load(Ordering::SeqCst)
    }
}
