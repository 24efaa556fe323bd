//! One life of a worker process: from boot to crash or drain, and what afflicts it meanwhile.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use posthaste_domain::{Timestamp, WorkerId};
use posthaste_engine::Clock;
use tokio::sync::Notify;

use crate::time::{WorldClock, sleep};

pub(crate) struct Incarnation {
    pub(crate) worker_id: WorkerId,
    world_clock: WorldClock,
    booted_at: Duration,
    ills: Mutex<Ills>,
    crashed: Notify,
}

/// Afflictions, each until a moment of true time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ills {
    crashed: bool,
    stalled_until: Duration,
    pub(crate) slow_until: Duration,
    pub(crate) slow_settle_until: Duration,
    pub(crate) heartbeat_lost_until: Duration,
    /// How far the wall clock is ahead, in seconds; negative is behind.
    pub(crate) clock_step_s: i64,
    /// How long one of its seconds really takes, in per mille.
    drift_per_mille: Option<u32>,
    /// Until when a lease that it lost may be blamed on a fault rather than on the engine.
    excused_until: Duration,
}

/// A drift with which the heartbeat, due after a third of the lease, comes too late.
const DRIFT_EXCUSES: u32 = 2_500;

impl Incarnation {
    pub(crate) fn boot(worker_id: WorkerId, world_clock: WorldClock) -> Self {
        let booted_at = world_clock.elapsed();
        Self { worker_id, world_clock, booted_at, ills: Mutex::default(), crashed: Notify::new() }
    }

    pub(crate) fn ills(&self) -> MutexGuard<'_, Ills> {
        self.ills.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From here on it does nothing any more, whatever its tasks are at.
    pub(crate) fn crash(&self) {
        self.ills().crashed = true;
        self.crashed.notify_one();
    }

    pub(crate) fn is_crashed(&self) -> bool {
        self.ills().crashed
    }

    pub(crate) async fn until_crash(&self) {
        self.crashed.notified().await;
    }

    /// Everything the process does passes here: a stalled one waits, a crashed one stays.
    pub(crate) async fn pass(&self) {
        loop {
            let ills = *self.ills();
            if ills.crashed {
                std::future::pending::<()>().await;
            }
            let now = self.world_clock.elapsed();
            if ills.stalled_until <= now {
                return;
            }
            sleep(ills.stalled_until - now).await;
        }
    }

    /// A stall that has begun never ends sooner.
    pub(crate) fn stall_until(&self, until: Duration) {
        let mut ills = self.ills();
        ills.stalled_until = ills.stalled_until.max(until);
    }

    /// A fault touches its calls now and for this long.
    pub(crate) fn excuse_for(&self, duration: Duration) {
        let until = self.world_clock.elapsed() + duration;
        let mut ills = self.ills();
        ills.excused_until = ills.excused_until.max(until);
    }

    /// Whether a lease last renewed at `renewed_at` may have been lost through a fault.
    pub(crate) fn is_excused_since(&self, renewed_at: Timestamp) -> bool {
        let renewed_at = self.world_clock.elapsed_at(renewed_at);
        let ills = self.ills();
        let drifts = ills.drift_per_mille.is_some_and(|drift| drift >= DRIFT_EXCUSES);
        ills.crashed || drifts || ills.excused_until.max(ills.stalled_until) >= renewed_at
    }

    /// What the process believes the time to be.
    pub(crate) fn wall(&self) -> Timestamp {
        let step = self.ills().clock_step_s;
        let by = Duration::from_secs(step.unsigned_abs());
        let truth = self.world_clock.timestamp();
        if step < 0 { truth.before(by) } else { truth.after(by) }
    }

    /// Timers that were set under the old drift still run under it, a heartbeat's for up to `lease` or more.
    pub(crate) fn drift(&self, per_mille: Option<u32>, lease: Duration) {
        self.ills().drift_per_mille = per_mille;
        self.excuse_for(lease * 2);
    }

    fn drift_per_mille(&self) -> u32 {
        self.ills().drift_per_mille.unwrap_or(1_000)
    }
}

/// The process's own clock: it drifts, and it does not notice stalls.
pub(crate) struct IncarnationClock(pub(crate) std::sync::Arc<Incarnation>);

impl Clock for IncarnationClock {
    fn monotonic(&self) -> Duration {
        // Drift shows in timers only; scaling this too could make it go back when the drift changes.
        self.0.world_clock.elapsed().saturating_sub(self.0.booted_at)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let incarnation = std::sync::Arc::clone(&self.0);
        Box::pin(async move {
            sleep(duration * incarnation.drift_per_mille() / 1_000).await;
            incarnation.pass().await;
        })
    }
}
