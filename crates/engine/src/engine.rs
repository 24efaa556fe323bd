//! A worker's loops, started together and drained together.

use std::sync::Arc;
use std::time::Duration;

use posthaste_domain::CycleReport;
use posthaste_store::StoreError;
use tokio::runtime::Handle;
use tokio::task::{JoinHandle, JoinSet};

use crate::circuits::Circuits;
use crate::clock::within;
use crate::cycle::Cycle;
use crate::heartbeat::Heartbeat;
use crate::phase::{Phase, Phases};
use crate::publish::Publisher;
use crate::settings::{InvalidSettings, Settings};
use crate::slots::Slots;
use crate::worker::{Ports, Worker};
use crate::{circuits, claim, cycle, maintain, settle};

/// How long an interrupted worker may take to give its leases back.
const GIVE_BACK_WITHIN: Duration = Duration::from_secs(2);

/// Where the loops run. Heartbeats belong on a runtime of their own, which no busy sender can keep from its timers.
#[derive(Debug, Clone)]
pub struct Runtimes {
    pub dispatch: Handle,
    pub heartbeat: Handle,
}

impl Runtimes {
    /// Everything on the runtime that this is called on.
    pub fn current() -> Self {
        Self { dispatch: Handle::current(), heartbeat: Handle::current() }
    }
}

/// A running worker. Dropped without a drain, it stops as a crash would stop it: leases expire by themselves.
pub struct Engine {
    worker: Arc<Worker>,
    claimer: JoinHandle<()>,
    loops: JoinSet<()>,
}

/// What a drain left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drained {
    /// Deliveries that were still being sent at the deadline and were given back.
    pub interrupted: usize,
    /// Deliveries whose leases could not be given back, or whose results could not be written, in time.
    pub abandoned: usize,
}

impl Engine {
    pub fn start(settings: Settings, ports: Ports, runtimes: &Runtimes) -> Result<Self, InvalidSettings> {
        let Assembled { worker, mut loops } = assemble(settings, ports, runtimes)?;
        let Ports { store, clock, .. } = worker.ports.clone();
        let follow = worker.publisher.clone().run(store, clock, worker.settings.poll_interval);
        loops.spawn_on(follow, &runtimes.dispatch);
        loops.spawn_on(circuits::run(Arc::clone(&worker)), &runtimes.dispatch);
        loops.spawn_on(maintain::run(Arc::clone(&worker)), &runtimes.dispatch);
        loops.spawn_on(cycle::run(Arc::clone(&worker)), &runtimes.dispatch);
        let claimer = runtimes.dispatch.spawn(claim::run(Arc::clone(&worker)));
        Ok(Self { worker, claimer, loops })
    }

    /// One cycle: claims what is due once, delivers it to the end, and reports.
    pub async fn once(settings: Settings, ports: Ports) -> Result<CycleReport, OnceError> {
        let Assembled { worker, loops: _running } = assemble(settings, ports, &Runtimes::current())?;
        claim::once(Arc::clone(&worker)).await?;
        let report = worker.cycle.end(worker.ports.clock.monotonic());
        cycle::log(&worker.settings.worker_id, &report);
        Ok(report)
    }

    /// Notices, as they are committed.
    pub fn publisher(&self) -> &Publisher {
        &self.worker.publisher
    }

    /// Requests being sent or settled.
    pub fn in_flight(&self) -> usize {
        self.worker.slots.in_flight()
    }

    /// Stops claiming and lets what is in flight finish; at the deadline, gives back what has not.
    pub async fn drain(mut self, deadline: Duration) -> Drained {
        let clock = Arc::clone(&self.worker.ports.clock);
        self.worker.phases.enter(Phase::Draining);
        let mut interrupted = 0;
        if within(&*clock, deadline, &mut self.claimer).await.is_none() {
            interrupted = self.in_flight();
            self.worker.phases.enter(Phase::Interrupted);
            // Past this, what is left is left to its leases.
            let _ = within(&*clock, GIVE_BACK_WITHIN, &mut self.claimer).await;
        }
        cycle::log(&self.worker.settings.worker_id, &self.worker.cycle.end(clock.monotonic()));
        let abandoned = self.in_flight();
        Drained { interrupted: interrupted.saturating_sub(abandoned), abandoned }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.claimer.abort();
        self.loops.abort_all();
    }
}

#[derive(Debug, thiserror::Error)]
pub enum OnceError {
    #[error(transparent)]
    Settings(#[from] InvalidSettings),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The parts of a worker, with the two loops that every delivery leans on already running.
struct Assembled {
    worker: Arc<Worker>,
    loops: JoinSet<()>,
}

fn assemble(settings: Settings, ports: Ports, runtimes: &Runtimes) -> Result<Assembled, InvalidSettings> {
    settings.check()?;
    let Ports { store, clock, .. } = ports.clone();
    let id = settings.worker_id.clone();
    let (settler, settling) = settle::settler(id.clone(), Arc::clone(&store), Arc::clone(&clock));
    let heartbeat = Arc::new(Heartbeat::new(id, settings.lease, store, Arc::clone(&clock)));

    let mut loops = JoinSet::new();
    loops.spawn_on(Arc::clone(&heartbeat).run(), &runtimes.heartbeat);
    loops.spawn_on(settling.run(), &runtimes.dispatch);
    let worker = Worker {
        slots: Arc::new(Slots::new(&settings)),
        circuits: Arc::new(Circuits::new(settings.breaker)),
        heartbeat,
        settler,
        publisher: Publisher::new(),
        cycle: Cycle::new(clock.monotonic()),
        phases: Phases::default(),
        settings,
        ports,
    };
    Ok(Assembled { worker: Arc::new(worker), loops })
}
