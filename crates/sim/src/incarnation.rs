//! One life of a worker process: from boot to crash or drain, and what afflicts it meanwhile.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use posthaste_domain::{LeaseToken, Timestamp, WorkerId};
use posthaste_engine::Clock;
use posthaste_store::NoticeCursor;
use tokio::sync::Notify;

use crate::time::{WorldClock, sleep};

pub(crate) struct Incarnation {
    pub(crate) worker_id: WorkerId,
    world_clock: WorldClock,
    booted_at: Duration,
    ills: Mutex<Ills>,
    deeds: Mutex<Deeds>,
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
    drift: Drift,
    /// Until when a lease that it lost may be blamed on a fault rather than on the engine.
    excused_until: Duration,
}

/// A clock that runs fast or slow, from a moment on.
#[derive(Debug, Clone, Copy)]
struct Drift {
    /// How long one of its seconds really takes, in per mille.
    per_mille: u32,
    since_true: Duration,
    since_own: Duration,
}

/// With a clock this slow, a heartbeat that is due after a third of the lease comes too late.
const TOO_SLOW_PER_MILLE: u32 = 2_500;

impl Default for Drift {
    fn default() -> Self {
        Self { per_mille: 1_000, since_true: Duration::ZERO, since_own: Duration::ZERO }
    }
}

impl Drift {
    fn own(self, truth: Duration) -> Duration {
        self.since_own + truth.saturating_sub(self.since_true) * 1_000 / self.per_mille
    }
}

/// What the process has done, as seen from outside.
#[derive(Debug, Default)]
struct Deeds {
    /// Tokens that reached it: a claim whose reply was lost brought it nothing to renew.
    received: BTreeSet<LeaseToken>,
    /// Tokens that it gave back, whether or not the store heard of it.
    given_back: BTreeSet<LeaseToken>,
    draining: bool,
    last_claim_at: Duration,
    heard: Option<NoticeCursor>,
}

impl Incarnation {
    pub(crate) fn boot(worker_id: WorkerId, world_clock: WorldClock) -> Self {
        let booted_at = world_clock.elapsed();
        let deeds = Mutex::new(Deeds { last_claim_at: booted_at, ..Deeds::default() });
        Self { worker_id, world_clock, booted_at, ills: Mutex::default(), deeds, crashed: Notify::new() }
    }

    pub(crate) fn ills(&self) -> MutexGuard<'_, Ills> {
        self.ills.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn deeds(&self) -> MutexGuard<'_, Deeds> {
        self.deeds.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// From now on its clock runs at another pace. Timers that were set under the old one still run under it.
    pub(crate) fn drift(&self, per_mille: u32, lease: Duration) {
        let truth = self.world_clock.elapsed();
        {
            let mut ills = self.ills();
            ills.drift = Drift { per_mille, since_true: truth, since_own: ills.drift.own(truth) };
        }
        self.excuse_for(lease * 2);
    }

    /// Whether losing this lease at `until` may be blamed on a fault: one that lasted so long that no heartbeat
    /// could have come through after it, a token that never reached the process, or one that it gave back.
    pub(crate) fn is_excused_for(&self, token: LeaseToken, until: Timestamp, lease: Duration) -> bool {
        let until = self.world_clock.elapsed_at(until);
        let ills = *self.ills();
        // A heartbeat interval, then a call that hangs for as long, then the pause before the next.
        let time_to_renew = lease * 3 / 4 * ills.drift.per_mille / 1_000;
        let touched = ills.excused_until.max(ills.stalled_until) + time_to_renew >= until;
        let too_slow = ills.drift.per_mille >= TOO_SLOW_PER_MILLE;
        let deeds = self.deeds();
        let held = deeds.received.contains(&token) && !deeds.given_back.contains(&token);
        ills.crashed || touched || too_slow || !held
    }

    /// What the process believes the time to be, and whether it is wrong.
    pub(crate) fn wall(&self) -> (Timestamp, bool) {
        let step = self.ills().clock_step_s;
        let by = Duration::from_secs(step.unsigned_abs());
        let truth = self.world_clock.timestamp();
        (if step < 0 { truth.before(by) } else { truth.after(by) }, step != 0)
    }

    pub(crate) fn received(&self, tokens: impl Iterator<Item = LeaseToken>) {
        self.deeds().received.extend(tokens);
    }

    pub(crate) fn has_received(&self, token: LeaseToken) -> bool {
        self.deeds().received.contains(&token)
    }

    pub(crate) fn gives_back(&self, tokens: impl Iterator<Item = LeaseToken>) {
        self.deeds().given_back.extend(tokens);
    }

    pub(crate) fn drains(&self) {
        self.deeds().draining = true;
    }

    /// It asks for more; false if it said that it would not.
    pub(crate) fn claims(&self) -> bool {
        let mut deeds = self.deeds();
        deeds.last_claim_at = self.world_clock.elapsed();
        !deeds.draining
    }

    pub(crate) fn booted_at(&self) -> Timestamp {
        let ago = self.world_clock.elapsed().saturating_sub(self.booted_at);
        self.world_clock.timestamp().before(ago)
    }

    pub(crate) fn silent_for(&self) -> Duration {
        self.world_clock.elapsed().saturating_sub(self.deeds().last_claim_at)
    }

    /// Up since then, and nothing has befallen it since.
    pub(crate) fn is_at_peace_since(&self, moment: Timestamp) -> bool {
        let moment = self.world_clock.elapsed_at(moment);
        let ills = *self.ills();
        let calm_since = self.booted_at.max(ills.stalled_until).max(ills.excused_until);
        !ills.crashed && calm_since < moment && moment < self.world_clock.elapsed()
    }

    pub(crate) fn hears(&self, cursor: Option<NoticeCursor>) {
        self.deeds().heard = cursor;
    }

    /// The last notice that its follower heard; none without a follower.
    pub(crate) fn heard(&self) -> Option<NoticeCursor> {
        if self.is_crashed() { None } else { self.deeds().heard }
    }
}

/// The process's own clock, which drifts.
pub(crate) struct IncarnationClock(pub(crate) Arc<Incarnation>);

impl Clock for IncarnationClock {
    fn monotonic(&self) -> Duration {
        let truth = self.0.world_clock.elapsed();
        self.0.ills().drift.own(truth)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let incarnation = Arc::clone(&self.0);
        let per_mille = incarnation.ills().drift.per_mille;
        Box::pin(async move {
            sleep(duration * per_mille / 1_000).await;
            incarnation.pass().await;
        })
    }
}
