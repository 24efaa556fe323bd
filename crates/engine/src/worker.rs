//! What the parts of one worker share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use posthaste_domain::{ClaimId, Roll};
use posthaste_store::Store;

use crate::circuits::Circuits;
use crate::clock::Clock;
use crate::cycle::Cycle;
use crate::heartbeat::Heartbeat;
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
