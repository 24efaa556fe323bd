//! A worker's loops, started together and drained together.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use posthaste_domain::{CycleReport, FAST_RETRY_FLOOR};
use posthaste_store::StoreError;
use tokio::runtime::Handle;
use tokio::task::{JoinHandle, JoinSet};

use crate::circuits::Circuits;
use crate::clock::within;
use crate::cycle::Cycle;
use crate::heartbeat::Heartbeat;
use crate::observe::Pulse;
use crate::phase::{Phase, Phases};
use crate::publish::Publisher;
use crate::settings::{InvalidSettings, Settings};
use crate::slots::Slots;
use crate::supervise::supervised;
use crate::worker::{Leftover, Ports, Worker};
use crate::{circuits, claim, cycle, maintain, settle};

/// Most of a drain's time that is kept for releasing what has not finished.
const RELEASE_WITHIN: Duration = Duration::from_secs(2);

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
    /// Leases that were given back before there was a result: their events are due again at once.
    pub released: usize,
    /// Leases that could neither be settled nor released in time: their events wait until they expire.
    pub left: usize,
}

#[derive(Debug, thiserror::Error)]
pub enum OnceError {
    #[error(transparent)]
    Settings(#[from] InvalidSettings),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the cycle was not finished within {0:?}; what it left is claimed again when its leases expire")]
    Unfinished(Duration),
}

impl Engine {
    pub fn start(settings: Settings, ports: Ports, runtimes: &Runtimes) -> Result<Self, InvalidSettings> {
        let (worker, mut loops) = assemble(settings, ports, runtimes)?;
        let mut keep_running = |name, run: fn(Arc<Worker>) -> BoxedLoop| {
            let again = Arc::clone(&worker);
            let clock = Arc::clone(&worker.ports.clock);
            loops.spawn_on(supervised(name, clock, move || run(Arc::clone(&again))), &runtimes.dispatch);
        };
        keep_running("publish", |worker| {
            let (clock, poll_interval) = (Arc::clone(&worker.ports.clock), worker.settings.poll_interval);
            Box::pin(worker.publisher.clone().run(clock, poll_interval))
        });
        keep_running("circuits", |worker| Box::pin(circuits::run(worker)));
        keep_running("maintain", |worker| Box::pin(maintain::run(worker)));
        keep_running("cycle", |worker| Box::pin(cycle::run(worker)));
        let again = Arc::clone(&worker);
        let clock = Arc::clone(&worker.ports.clock);
        let claimer =
            runtimes.dispatch.spawn(supervised("claim", clock, move || claim::run(Arc::clone(&again))));
        Ok(Self { worker, claimer, loops })
    }

    /// One cycle: claims up to all slots' worth of what is due, delivers it to the end, and reports.
    pub async fn once(
        settings: Settings,
        ports: Ports,
        runtimes: &Runtimes,
    ) -> Result<CycleReport, OnceError> {
        let never = std::future::pending();
        let (report, _) = Self::once_until(settings, ports, runtimes, never, Duration::ZERO).await?;
        Ok(report)
    }

    /// As [`Engine::once`], unless it is told to stop: then it drains within the deadline, as a running worker does.
    pub async fn once_until(
        settings: Settings,
        ports: Ports,
        runtimes: &Runtimes,
        stop: impl Future<Output = ()>,
        deadline: Duration,
    ) -> Result<(CycleReport, Drained), OnceError> {
        let (worker, _running) = assemble(settings, ports, runtimes)?;
        let Settings { timeout, lease, concurrency, per_destination, .. } = worker.settings;
        // At worst every destination takes its events one after the other, each to its timeout.
        let rounds = u32::try_from(concurrency.div_ceil(per_destination)).unwrap_or(u32::MAX);
        let patience = timeout.saturating_mul(rounds).saturating_add(lease.duration() * 2);
        let mut cycle = pin!(claim::once(Arc::clone(&worker)));
        tokio::select! {
            biased;
            ended = within(&*worker.ports.clock, patience, &mut cycle) => {
                ended.ok_or(OnceError::Unfinished(patience))??;
            }
            // Past the deadline, what is left is left to its leases.
            () = stop => worker.drain(deadline, &mut cycle).await.transpose().map(drop)?,
        }
        Ok((worker.end_cycle(), worker.drained()))
    }

    /// Notices, as they are committed.
    pub fn publisher(&self) -> &Publisher {
        &self.worker.publisher
    }

    /// How it is doing, for whoever wants to know.
    pub fn pulse(&self) -> Pulse {
        Pulse::of(&self.worker)
    }

    /// Requests being sent, settled or released.
    pub fn in_flight(&self) -> usize {
        self.worker.slots.in_flight()
    }

    /// Stops claiming and lets what is in flight finish. Shortly before the deadline, gives back what has not.
    pub async fn drain(mut self, deadline: Duration) -> Drained {
        // Past the deadline, what is left is left to its leases.
        let _ = self.worker.drain(deadline, &mut self.claimer).await;
        self.worker.end_cycle();
        self.worker.drained()
    }
}

impl Worker {
    /// None when the claimer has not ended by the deadline.
    async fn drain<T>(&self, deadline: Duration, mut claimer: impl Future<Output = T> + Unpin) -> Option<T> {
        let clock = &*self.ports.clock;
        let for_release = RELEASE_WITHIN.min(deadline / 2);
        self.phases.enter(Phase::Draining);
        let finished = within(clock, deadline.saturating_sub(for_release), &mut claimer).await;
        if finished.is_some() {
            return finished;
        }
        self.phases.enter(Phase::Interrupted);
        within(clock, for_release, claimer).await
    }

    fn end_cycle(&self) -> CycleReport {
        let report = self.cycle.end(self.ports.clock.monotonic());
        cycle::log(&self.settings.worker_id, &report);
        report
    }

    fn drained(&self) -> Drained {
        let Self { leftover, slots, .. } = self;
        Drained { released: leftover.released(), left: leftover.owed() + slots.in_flight() }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.claimer.abort();
        self.loops.abort_all();
    }
}

type BoxedLoop = futures_util::future::BoxFuture<'static, ()>;

/// The parts of a worker, with the two loops that every delivery leans on already running.
fn assemble(
    settings: Settings,
    ports: Ports,
    runtimes: &Runtimes,
) -> Result<(Arc<Worker>, JoinSet<()>), InvalidSettings> {
    settings.check()?;
    if settings.policy.breaks_the_contract() {
        tracing::warn!(worker_id = %settings.worker_id, first_delay = ?settings.policy.window(0).start(),
            floor = ?FAST_RETRY_FLOOR, "retries faster than the retry contract allows are switched on; this is for tests");
    }
    let Ports { store, clock, observer, .. } = ports.clone();
    let id = settings.worker_id.clone();
    let (settler, settling) = settle::settler(id.clone(), Arc::clone(&store), Arc::clone(&clock));
    let heartbeat =
        Arc::new(Heartbeat::new(id, settings.lease, Arc::clone(&store), Arc::clone(&clock), observer));

    let mut loops = JoinSet::new();
    let renewing = Arc::clone(&heartbeat);
    let beat = supervised("heartbeat", Arc::clone(&clock), move || Arc::clone(&renewing).run());
    loops.spawn_on(beat, &runtimes.heartbeat);
    loops.spawn_on(settling.run(), &runtimes.dispatch);
    let worker = Worker {
        slots: Arc::new(Slots::new(&settings)),
        circuits: Arc::new(Circuits::new(settings.breaker)),
        heartbeat,
        settler,
        publisher: Publisher::new(store),
        cycle: Cycle::new(clock.monotonic()),
        phases: Phases::default(),
        leftover: Leftover::default(),
        claimed_at: AtomicU64::new(0),
        settings,
        ports,
    };
    worker.claiming_works();
    Ok((Arc::new(worker), loops))
}
