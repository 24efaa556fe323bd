//! One run of a worker process, from boot to crash or drain, with the faults that affect it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use posthaste_domain::{LeaseToken, Timestamp, WorkerId};
use posthaste_engine::{Clock, LocalShortage};
use posthaste_store::{ActivityReport, NoticeCursor};
use tokio::sync::Notify;

use crate::activity_log::{ActivityLog, ResultCounts};
use crate::time::{WorldClock, sleep};

/// One run of a simulated process. A restart creates a new one.
pub(crate) struct Process {
    pub(crate) worker_id: WorkerId,
    world_clock: WorldClock,
    booted_at: Duration,
    faults: Mutex<ProcessFaults>,
    history: Mutex<ProcessHistory>,
    activity: Mutex<ActivityLog>,
    crashed: Notify,
}

/// The faults that affect a process. Each `_until` is a time since the start of the simulation.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ProcessFaults {
    crashed: bool,
    stalled_until: Duration,
    pub(crate) slow_until: Duration,
    pub(crate) slow_settle_until: Duration,
    pub(crate) heartbeat_lost_until: Duration,
    /// The local resource that every request lacks until this time.
    pub(crate) shortage: Option<(LocalShortage, Duration)>,
    /// How far the wall clock is ahead, in seconds; negative is behind.
    pub(crate) clock_step_s: i64,
    drift: Drift,
    /// Until when the loss of a lease may be due to a fault instead of a bug in the engine.
    excused_until: Duration,
}

/// The rate of a clock that runs fast or slow since a given time.
#[derive(Debug, Clone, Copy)]
struct Drift {
    /// How long one second of this clock really takes, in per mille.
    per_mille: u32,
    /// True time when the rate was set.
    since_true: Duration,
    /// This clock's time when the rate was set.
    since_own: Duration,
}

/// From this rate on, a heartbeat due after a third of the lease comes too late.
const TOO_SLOW_PER_MILLE: u32 = 2_500;

impl Default for Drift {
    fn default() -> Self {
        Self { per_mille: 1_000, since_true: Duration::ZERO, since_own: Duration::ZERO }
    }
}

impl Drift {
    /// Converts true time to the time of this clock.
    fn own_time(self, true_time: Duration) -> Duration {
        self.since_own + true_time.saturating_sub(self.since_true) * 1_000 / self.per_mille
    }
}

/// What the process has done, as seen from outside.
#[derive(Debug, Default)]
struct ProcessHistory {
    /// Tokens that reached the process. It cannot renew leases of a claim whose reply was lost.
    received: BTreeSet<LeaseToken>,
    /// Tokens that the process has tried to release, whether or not the call reached the store.
    released: BTreeSet<LeaseToken>,
    draining: bool,
    writes: WriteHistory,
    last_claim_at: Duration,
    /// When the last claim was answered.
    last_answer_at: Duration,
    /// When the last claim that was answered was requested.
    last_answered_claim_at: Duration,
    /// Since when claims have been answered without a gap.
    claiming_since: Duration,
    /// The last notice that the process's subscriber received.
    last_notice: Option<NoticeCursor>,
}

/// A longer time between two answered claims is a gap. A worker that cannot write its results claims nothing.
const CLAIM_GAP: Duration = Duration::from_secs(10);

/// Whether the store accepts the process's results, as far as the process knows.
#[derive(Debug, Clone, Copy, Default)]
enum WriteHistory {
    /// The process has written nothing yet.
    #[default]
    Untried,
    Accepted,
    /// The last write was refused at this time.
    RefusedAt(Duration),
}

impl Process {
    pub(crate) fn boot(worker_id: WorkerId, world_clock: WorldClock) -> Self {
        let booted_at = world_clock.elapsed();
        let history = Mutex::new(ProcessHistory { last_claim_at: booted_at, ..ProcessHistory::default() });
        Self {
            worker_id,
            world_clock,
            booted_at,
            faults: Mutex::default(),
            history,
            activity: Mutex::default(),
            crashed: Notify::new(),
        }
    }

    pub(crate) fn faults(&self) -> MutexGuard<'_, ProcessFaults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn history(&self) -> MutexGuard<'_, ProcessHistory> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Crashes the process: none of its tasks makes any more progress.
    pub(crate) fn crash(&self) {
        self.faults().crashed = true;
        self.crashed.notify_one();
    }

    pub(crate) fn is_crashed(&self) -> bool {
        self.faults().crashed
    }

    /// Resolves when the process crashes.
    pub(crate) async fn crashed(&self) {
        self.crashed.notified().await;
    }

    /// Delays an action of the process: until the end of a stall, or forever after a crash. Every action calls this.
    pub(crate) async fn wait_while_stalled(&self) {
        loop {
            let faults = *self.faults();
            if faults.crashed {
                std::future::pending::<()>().await;
            }
            let now = self.world_clock.elapsed();
            if faults.stalled_until <= now {
                return;
            }
            sleep(faults.stalled_until - now).await;
        }
    }

    /// Stalls the process. Never shortens a stall that has begun.
    pub(crate) fn stall_until(&self, until: Duration) {
        let mut faults = self.faults();
        faults.stalled_until = faults.stalled_until.max(until);
    }

    /// Returns the local resource that requests lack now.
    pub(crate) fn shortage(&self) -> Option<LocalShortage> {
        let (shortage, until) = self.faults().shortage?;
        (self.world_clock.elapsed() < until).then_some(shortage)
    }

    /// Records that a fault affects the process's calls now and for this long.
    pub(crate) fn excuse_for(&self, duration: Duration) {
        let until = self.world_clock.elapsed() + duration;
        let mut faults = self.faults();
        faults.excused_until = faults.excused_until.max(until);
    }

    /// Changes the rate of the process's clock. Timers that are already running keep their old rate.
    pub(crate) fn set_drift(&self, per_mille: u32, lease: Duration) {
        let now = self.world_clock.elapsed();
        {
            let mut faults = self.faults();
            faults.drift = Drift { per_mille, since_true: now, since_own: faults.drift.own_time(now) };
        }
        self.excuse_for(lease * 2);
    }

    /// Returns whether a fault explains the loss of the lease that expired at `until`: a fault that left too little
    /// time for a heartbeat, a token that never reached the process, or a lease that the process released.
    pub(crate) fn loss_is_excused(&self, token: LeaseToken, until: Timestamp, lease: Duration) -> bool {
        let until = self.world_clock.elapsed_at(until);
        let faults = *self.faults();
        // One heartbeat interval, then a call that hangs for as long, then the pause before the next call.
        let time_to_renew = lease * 3 / 4 * faults.drift.per_mille / 1_000;
        let had_no_time = faults.excused_until.max(faults.stalled_until) + time_to_renew >= until;
        let clock_too_slow = faults.drift.per_mille >= TOO_SLOW_PER_MILLE;
        let history = self.history();
        let held = history.received.contains(&token) && !history.released.contains(&token);
        faults.crashed || had_no_time || clock_too_slow || !held
    }

    /// Returns whether the process's clock has always kept the true time.
    pub(crate) fn has_exact_clock(&self) -> bool {
        self.faults().drift.since_true.is_zero()
    }

    /// Returns the time of the host's wall clock, which may be hours off.
    fn host_time(&self) -> Timestamp {
        let step = self.faults().clock_step_s;
        let distance = Duration::from_secs(step.unsigned_abs());
        let now = self.world_clock.true_time();
        if step < 0 { now.before(distance) } else { now.after(distance) }
    }

    pub(crate) fn is_wall_clock_wrong(&self) -> bool {
        self.faults().clock_step_s != 0
    }

    pub(crate) fn record_received(&self, tokens: impl Iterator<Item = LeaseToken>) {
        self.history().received.extend(tokens);
    }

    pub(crate) fn has_received(&self, token: LeaseToken) -> bool {
        self.history().received.contains(&token)
    }

    pub(crate) fn record_released(&self, tokens: impl Iterator<Item = LeaseToken>) {
        self.history().released.extend(tokens);
    }

    /// Records that the store accepted a settle or a trial write.
    pub(crate) fn record_accepted_write(&self) {
        self.history().writes = WriteHistory::Accepted;
    }

    /// Records that the store refused a settle or a trial write.
    pub(crate) fn record_refused_write(&self) {
        let now = self.world_clock.elapsed();
        self.history().writes = WriteHistory::RefusedAt(now);
    }

    /// Returns whether the last write was accepted, or refused only now.
    pub(crate) fn writes_are_accepted(&self) -> bool {
        match self.history().writes {
            WriteHistory::Untried => false,
            WriteHistory::Accepted => true,
            WriteHistory::RefusedAt(at) => at == self.world_clock.elapsed(),
        }
    }

    pub(crate) fn start_draining(&self) {
        self.history().draining = true;
    }

    /// Records a claim. Returns false if the process is draining and must not claim.
    pub(crate) fn record_claim(&self) -> bool {
        let mut history = self.history();
        history.last_claim_at = self.world_clock.elapsed();
        !history.draining
    }

    /// Records that a claim was answered.
    pub(crate) fn record_claim_answer(&self) {
        let now = self.world_clock.elapsed();
        let mut history = self.history();
        if now - history.last_answer_at > CLAIM_GAP {
            history.claiming_since = now;
        }
        history.last_answer_at = now;
        history.last_answered_claim_at = history.last_claim_at;
    }

    /// Returns for how long claims have been answered without a gap.
    pub(crate) fn claiming_for(&self) -> Duration {
        let (now, history) = (self.world_clock.elapsed(), self.history());
        if now - history.last_answer_at > CLAIM_GAP { Duration::ZERO } else { now - history.claiming_since }
    }

    pub(crate) fn booted_at(&self) -> Timestamp {
        let uptime = self.world_clock.elapsed().saturating_sub(self.booted_at);
        self.world_clock.timestamp().before(uptime)
    }

    /// Returns the time since the request of the last claim that was answered. The process read the store's clock then.
    pub(crate) fn clock_reading_age(&self) -> Duration {
        self.world_clock.elapsed().saturating_sub(self.history().last_answered_claim_at)
    }

    pub(crate) fn time_since_claim(&self) -> Duration {
        self.world_clock.elapsed().saturating_sub(self.history().last_claim_at)
    }

    /// Returns whether the process has been running without a fault since before this time.
    pub(crate) fn is_undisturbed_since(&self, time: Timestamp) -> bool {
        let time = self.world_clock.elapsed_at(time);
        let faults = *self.faults();
        let undisturbed_since = self.booted_at.max(faults.stalled_until).max(faults.excused_until);
        !faults.crashed && undisturbed_since < time && time < self.world_clock.elapsed()
    }

    /// Returns a name that no other start of a worker has, also none under the same worker id.
    pub(crate) fn start_id(&self) -> WorkerId {
        let booted_at_ms = u64::try_from(self.booted_at.as_millis()).unwrap_or(u64::MAX);
        WorkerId::with_boot_id(self.worker_id.as_str(), booted_at_ms).expect("a worker id is visible ASCII")
    }

    fn activity(&self) -> MutexGuard<'_, ActivityLog> {
        self.activity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records results that the store has confirmed to the process.
    pub(crate) fn record_results(&self, counts: ResultCounts) {
        self.activity().learn(counts, self.world_clock.elapsed());
    }

    /// Records a report that the process makes. Returns what is wrong with it.
    pub(crate) fn record_report(&self, report: &ActivityReport) -> Result<(), String> {
        let is_draining = self.history().draining;
        self.activity().report(report, self.world_clock.elapsed(), is_draining)
    }

    pub(crate) fn record_confirmed_report(&self) {
        self.activity().confirm();
    }

    /// Returns the last confirmed report, if a repetition of it does no harm.
    pub(crate) fn repeatable_report(&self) -> Option<ActivityReport> {
        self.activity().repeatable_report()
    }

    /// Returns whether the process still runs, and has reported all results that it has learned.
    pub(crate) fn has_reported_all(&self) -> bool {
        !self.is_crashed() && !self.history().draining && self.activity().is_complete()
    }

    pub(crate) fn record_notice(&self, cursor: Option<NoticeCursor>) {
        self.history().last_notice = cursor;
    }

    /// Returns the last notice that the process's subscriber received; none if the process has crashed or has no
    /// subscriber.
    pub(crate) fn last_notice(&self) -> Option<NoticeCursor> {
        if self.is_crashed() { None } else { self.history().last_notice }
    }
}

/// The process's own clock, which may drift.
pub(crate) struct ProcessClock(pub(crate) Arc<Process>);

impl Clock for ProcessClock {
    fn monotonic(&self) -> Duration {
        let now = self.0.world_clock.elapsed();
        self.0.faults().drift.own_time(now)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let process = Arc::clone(&self.0);
        let per_mille = process.faults().drift.per_mille;
        Box::pin(async move {
            sleep(duration * per_mille / 1_000).await;
            process.wait_while_stalled().await;
        })
    }

    fn host_time(&self) -> Timestamp {
        self.0.host_time()
    }
}
