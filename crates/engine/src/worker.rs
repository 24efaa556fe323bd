//! What the parts of one worker share.

use std::sync::Arc;

use posthaste_domain::Roll;
use posthaste_store::Store;
use tokio::sync::watch;

use crate::circuits::Circuits;
use crate::clock::Clock;
use crate::cycle::Cycle;
use crate::heartbeat::Heartbeat;
use crate::publish::Publisher;
use crate::sender::Sender;
use crate::settings::Settings;
use crate::settle::Settler;
use crate::slots::Slots;

/// Where jitter comes from.
pub trait Chance: Send + Sync + 'static {
    fn roll(&self) -> Roll;
}

/// The outside world, as the engine sees it.
#[derive(Clone)]
pub struct Ports {
    pub store: Arc<dyn Store>,
    pub sender: Arc<dyn Sender>,
    pub clock: Arc<dyn Clock>,
    pub chance: Arc<dyn Chance>,
}

/// How far a worker is on its way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Running,
    /// Nothing more is claimed; what is in flight finishes.
    Draining,
    /// What is still being sent is given back.
    Interrupted,
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
    pub(crate) phase: watch::Receiver<Phase>,
}

impl Worker {
    pub(crate) fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Resolves when the worker is at least this far on its way out.
    pub(crate) async fn reached(&self, phase: Phase) {
        let mut watched = self.phase.clone();
        if watched.wait_for(|current| *current >= phase).await.is_err() {
            // The engine was dropped without a drain, and its tasks go with it.
            std::future::pending::<()>().await;
        }
    }
}
