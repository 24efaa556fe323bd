//! What the parts of one worker share.

use std::sync::Arc;

use posthaste_domain::Roll;
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
}
