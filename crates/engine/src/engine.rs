//! A running worker: starts its loops together and drains them together.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use posthaste_domain::{CycleReport, FAST_RETRY_FLOOR};
use posthaste_store::{LayeredStore, Store, StoreError};
use tokio::runtime::Handle;
use tokio::task::{JoinHandle, JoinSet};

use crate::activity::ActivityCounters;
use crate::circuits::Circuits;
use crate::clock::within;
use crate::cycle::CycleCounters;
use crate::direct::DirectStore;
use crate::disabled::DisabledEndpoints;
use crate::due_times::DueTimes;
use crate::heartbeat::Heartbeat;
use crate::lanes::Lanes;
use crate::observe::WorkerHealth;
use crate::payloads::PayloadReads;
use crate::phase::{Phase, PhaseTracker};
use crate::publish::Publisher;
use crate::settings::{InvalidSettings, Settings};
use crate::shortages::Shortages;
use crate::slots::Slots;
use crate::store_time::StoreTime;
use crate::supervise::restart_on_panic;
use crate::worker::{DrainCounters, Ports, Worker};
use crate::{
    activity, circuits, claim, cycle, disabled, expire, intervals, maintain, operations, settle, signing,
};

/// Maximum part of a drain's deadline that is reserved for releasing unfinished leases.
const RELEASE_TIME_MAX: Duration = Duration::from_secs(2);

/// The tokio runtimes that a worker's loops run on. The heartbeat should have its own, so that busy senders cannot
/// delay its timers.
#[derive(Debug, Clone)]
pub struct Runtimes {
    pub dispatch: Handle,
    pub heartbeat: Handle,
}

impl Runtimes {
    /// Returns the current runtime for all loops.
    pub fn current() -> Self {
        Self { dispatch: Handle::current(), heartbeat: Handle::current() }
    }
}

/// A running worker. Dropping it without [`drain`](Self::drain) has the effect of a crash: its leases expire.
pub struct Engine {
    worker: Arc<Worker>,
    dispatch: Handle,
    claimer: JoinHandle<()>,
    reporter: JoinHandle<()>,
    loops: JoinSet<()>,
}

/// The leases that had no written result when a drain ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrainReport {
    /// Leases released without a result. Their events are due again at once.
    pub released: usize,
    /// Leases neither settled nor released before the deadline. Their events are claimable when the leases expire.
    pub unreleased: usize,
    /// Results that were known but could not be written. Their events are sent again.
    pub unwritten: usize,
}

/// Why a single cycle failed.
#[derive(Debug, thiserror::Error)]
pub enum RunOnceError {
    #[error(transparent)]
    Settings(#[from] InvalidSettings),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(
        "the cycle did not finish within {0:?}; its unfinished events are claimed again when their leases expire"
    )]
    Unfinished(Duration),
}

impl Engine {
    /// Validates the settings and starts a worker's loops.
    pub fn start(settings: Settings, ports: Ports, runtimes: &Runtimes) -> Result<Self, InvalidSettings> {
        let (worker, mut loops) = start_worker(settings, ports, runtimes)?;
        let mut spawn_loop = |name, run: fn(Arc<Worker>) -> BoxedLoop| {
            let loop_worker = Arc::clone(&worker);
            let clock = Arc::clone(&worker.ports.clock);
            let run_loop = restart_on_panic(name, clock, move || run(Arc::clone(&loop_worker)));
            loops.spawn_on(run_loop, &runtimes.dispatch);
        };
        spawn_loop("publish", |worker| {
            let (clock, poll_interval) = (Arc::clone(&worker.ports.clock), worker.settings.poll_interval);
            Box::pin(worker.publisher.clone().run(clock, poll_interval))
        });
        spawn_loop("circuits", |worker| Box::pin(circuits::run(worker)));
        spawn_loop("maintain", |worker| Box::pin(maintain::run(worker)));
        spawn_loop("expire", |worker| Box::pin(expire::run(worker)));
        spawn_loop("operations", |worker| Box::pin(operations::run(worker)));
        spawn_loop("disabled", |worker| Box::pin(disabled::run(worker)));
        spawn_loop("cycle", |worker| Box::pin(cycle::run(worker)));
        spawn_loop("signing", |worker| Box::pin(signing::run(worker)));
        let claiming_worker = Arc::clone(&worker);
        let clock = Arc::clone(&worker.ports.clock);
        let claim_loop = restart_on_panic("claim", clock, move || claim::run(Arc::clone(&claiming_worker)));
        let claimer = runtimes.dispatch.spawn(claim_loop);
        let reporting_worker = Arc::clone(&worker);
        let clock = Arc::clone(&worker.ports.clock);
        let report_loop =
            restart_on_panic("activity", clock, move || activity::run(Arc::clone(&reporting_worker)));
        let reporter = runtimes.dispatch.spawn(report_loop);
        Ok(Self { worker, dispatch: runtimes.dispatch.clone(), claimer, reporter, loops })
    }

    /// Runs one cycle: dead-letters expired events, claims at most as many due events as the worker has slots, delivers them
    /// and returns the cycle report.
    pub async fn run_once(
        settings: Settings,
        ports: Ports,
        runtimes: &Runtimes,
    ) -> Result<CycleReport, RunOnceError> {
        let never = std::future::pending();
        let (report, _) = Self::run_once_until(settings, ports, runtimes, never, Duration::ZERO).await?;
        Ok(report)
    }

    /// Runs one cycle as [`Engine::run_once`] does. When `stop` resolves first, drains within `deadline`, as
    /// [`Engine::drain`] does.
    pub async fn run_once_until(
        settings: Settings,
        ports: Ports,
        runtimes: &Runtimes,
        stop: impl Future<Output = ()>,
        deadline: Duration,
    ) -> Result<(CycleReport, DrainReport), RunOnceError> {
        let (worker, _loops) = start_worker(settings, ports, runtimes)?;
        let _lanes = AbortLanes(Arc::clone(&worker));
        let Settings { timeout, lease, concurrency, per_destination, .. } = worker.settings;
        // In the worst case one destination has all events: it takes `per_destination` at a time, each up to its
        // timeout.
        let rounds = u32::try_from(concurrency.div_ceil(per_destination)).unwrap_or(u32::MAX);
        let time_limit = timeout.saturating_mul(rounds).saturating_add(lease.duration() * 2);
        let mut cycle = pin!(async {
            // First, so that the cycle sends no event that has expired.
            expire::run_once(&worker).await;
            claim::run_once(Arc::clone(&worker)).await
        });
        tokio::select! {
            biased;
            ended = within(&*worker.ports.clock, time_limit, &mut cycle) => {
                if let Some(ended) = ended {
                    ended?;
                } else {
                    // Past the deadline, unfinished leases expire.
                    let _ = worker.drain(RELEASE_TIME_MAX * 2, &mut cycle).await;
                    return Err(RunOnceError::Unfinished(time_limit));
                }
            }
            // Past the deadline, unfinished leases expire.
            () = stop => worker.drain(deadline, &mut cycle).await.transpose().map(drop)?,
        }
        activity::report_last(&worker, time_limit).await;
        Ok((worker.end_cycle(), worker.drain_report()))
    }

    /// Returns the publisher of committed notices.
    pub fn publisher(&self) -> &Publisher {
        &self.worker.publisher
    }

    /// Returns the store for producers in this process. Events that are enqueued through it are sent without a claim if the
    /// worker can send them at once. It stays usable when the worker has ended.
    pub fn direct_store(&self) -> Arc<dyn Store> {
        Arc::new(LayeredStore(DirectStore::new(&self.worker, self.dispatch.clone())))
    }

    /// Returns a handle to read the worker's health.
    pub fn health(&self) -> WorkerHealth {
        WorkerHealth::new(&self.worker)
    }

    /// Returns the number of deliveries being sent, settled or released.
    pub fn in_flight(&self) -> usize {
        self.worker.in_flight()
    }

    /// Stops claiming and waits for deliveries in flight. Shortly before the deadline, interrupts the remaining ones
    /// and releases their leases.
    pub async fn drain(mut self, deadline: Duration) -> DrainReport {
        let started_at = self.worker.ports.clock.monotonic();
        // Past the deadline, unfinished leases expire.
        let _ = self.worker.drain(deadline, &mut self.claimer).await;
        // The loop must have ended: a report of it after the last one would add the worker again.
        self.reporter.abort();
        let _ = (&mut self.reporter).await;
        let elapsed = self.worker.ports.clock.monotonic().saturating_sub(started_at);
        activity::report_last(&self.worker, deadline.saturating_sub(elapsed)).await;
        self.worker.end_cycle();
        self.worker.drain_report()
    }
}

impl Worker {
    /// Drains the worker and waits until its claimer ends. Shortly before the deadline, interrupts the deliveries that
    /// remain. Returns `None` if the claimer has not ended by the deadline.
    async fn drain<T>(&self, deadline: Duration, mut claimer: impl Future<Output = T> + Unpin) -> Option<T> {
        let clock = &*self.ports.clock;
        let release_time = RELEASE_TIME_MAX.min(deadline / 2);
        self.phases.enter(Phase::Draining);
        let finished = within(clock, deadline.saturating_sub(release_time), &mut claimer).await;
        if finished.is_some() {
            return finished;
        }
        self.phases.enter(Phase::Interrupted);
        self.settler.start_last_try();
        let finished = within(clock, release_time, claimer).await;
        let unwritten = self.settler.unwritten() + self.drain.unwritten();
        if unwritten > 0 {
            tracing::error!(worker_id = %self.settings.worker_id, unwritten,
                "results could not be written before the worker ended, and are lost; their events are sent again");
        }
        finished
    }

    fn end_cycle(&self) -> CycleReport {
        let report = self.cycle.end(self.ports.clock.monotonic());
        cycle::log(&self.settings.worker_id, &report);
        report
    }

    fn drain_report(&self) -> DrainReport {
        DrainReport {
            released: self.drain.released(),
            unreleased: self.drain.pending() + self.in_flight(),
            unwritten: self.drain.unwritten() + self.settler.unwritten(),
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // New events are left to other workers.
        self.worker.phases.enter(Phase::Interrupted);
        self.claimer.abort();
        self.reporter.abort();
        self.loops.abort_all();
        self.worker.lanes.abort();
    }
}

/// Aborts the deliveries of a worker when it is dropped.
struct AbortLanes(Arc<Worker>);

impl Drop for AbortLanes {
    fn drop(&mut self) {
        self.0.lanes.abort();
    }
}

type BoxedLoop = futures_util::future::BoxFuture<'static, ()>;

/// Builds a worker and starts the loops that every delivery needs: heartbeat, settle and the intervals of the slots.
fn start_worker(
    settings: Settings,
    ports: Ports,
    runtimes: &Runtimes,
) -> Result<(Arc<Worker>, JoinSet<()>), InvalidSettings> {
    settings.validate()?;
    if settings.policy.violates_retry_contract() {
        tracing::warn!(worker_id = %settings.worker_id, first_delay = ?settings.policy.delay_range(0).start(),
            floor = ?FAST_RETRY_FLOOR, "retries faster than the retry contract allows are switched on; this is for tests");
    }
    let breaker = settings.policy.uses_circuit_breaker().then_some(settings.breaker);
    let Ports { store, clock, observer, .. } = ports.clone();
    let id = settings.worker_id.clone();
    let (settler, settle_loop) = settle::settler(id.clone(), Arc::clone(&store), Arc::clone(&clock));
    let heartbeat =
        Arc::new(Heartbeat::new(id, settings.lease, Arc::clone(&store), Arc::clone(&clock), observer));

    let mut loops = JoinSet::new();
    let renewing = Arc::clone(&heartbeat);
    let heartbeat_loop =
        restart_on_panic("heartbeat", Arc::clone(&clock), move || Arc::clone(&renewing).run());
    loops.spawn_on(heartbeat_loop, &runtimes.heartbeat);
    let worker = Worker {
        slots: Arc::new(Slots::new(&settings)),
        lanes: Lanes::default(),
        circuits: Arc::new(Circuits::new(breaker)),
        shortages: Shortages::default(),
        payload_reads: PayloadReads::default(),
        due_times: DueTimes::default(),
        store_time: StoreTime::default(),
        heartbeat,
        settler,
        publisher: Publisher::new(store),
        disabled: DisabledEndpoints::default(),
        cycle: CycleCounters::new(clock.monotonic()),
        activity: ActivityCounters::new(clock.monotonic()),
        phases: PhaseTracker::default(),
        drain: DrainCounters::default(),
        last_claim_ms: AtomicU64::new(0),
        settings,
        ports,
    };
    worker.record_claim();
    let worker = Arc::new(worker);
    let (slots_worker, clock) = (Arc::clone(&worker), Arc::clone(&worker.ports.clock));
    let interval_loop =
        restart_on_panic("intervals", clock, move || intervals::run(Arc::clone(&slots_worker)));
    loops.spawn_on(interval_loop, &runtimes.dispatch);
    loops.spawn_on(settle_loop.run(Arc::clone(&worker)), &runtimes.dispatch);
    Ok((worker, loops))
}
