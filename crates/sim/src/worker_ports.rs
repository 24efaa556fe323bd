//! The ports of one process, with everything that can happen between it and the world.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use posthaste_domain::{EventId, Lease, Outcome, WorkerId};
use posthaste_engine::Sender;
use posthaste_store::{
    CircuitReport, ClaimRequest, Claimed, EnqueueRequest, Enqueued, EventQuery, EventView, HeldLease, Layer,
    Maintained, NoticeCursor, NoticePage, Page, PageRequest, Retention, Settled, Settlement, Store,
    StoreError, Waker, Wakeups,
};

use crate::client::is_poison;
use crate::fault::Fault;
use crate::incarnation::Incarnation;
use crate::occupancy::Occupancy;
use crate::receivers::answer;
use crate::time::sleep;
use crate::world::World;

/// A store as seen over a network that fails, by a process that may crash at any call.
pub(crate) struct FaultyStore {
    pub(crate) inner: Arc<dyn Store>,
    pub(crate) world: Arc<World>,
    pub(crate) process: Arc<Incarnation>,
    /// Producers and operators suffer the network but do not crash.
    pub(crate) mortal: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    Read,
    Claim,
    Write,
    Renew,
    Settle,
}

impl Call {
    /// How often, in a thousand, the process crashes on either side of the commit. Claims are many, and most bring
    /// nothing.
    const fn crashes(self) -> u64 {
        match self {
            Self::Read => 0,
            Self::Claim | Self::Renew => 1,
            Self::Write => 4,
            Self::Settle => 15,
        }
    }
}

impl FaultyStore {
    async fn call<T>(
        &self,
        call: Call,
        inner: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.process.pass().await;
        self.travel(call).await;
        if self.world.is_out() {
            return Err(self.fails(Fault::StoreOutage));
        }
        if call == Call::Renew && self.process.ills().heartbeat_lost_until > self.world.clock.elapsed() {
            return Err(self.fails(Fault::LostHeartbeat));
        }
        if self.mortal && self.world.strikes(call.crashes()) {
            self.crash(Fault::CrashBeforeCommit).await;
        }
        let result = inner.await;
        if self.mortal && self.world.strikes(call.crashes()) {
            self.crash(Fault::CrashAfterCommit).await;
        }
        if call != Call::Read && self.world.strikes(10) {
            return Err(self.fails(Fault::ReplyLost));
        }
        self.travel(call).await;
        self.process.pass().await;
        result
    }

    /// The way to the store and back: a few milliseconds each, or much more.
    async fn travel(&self, call: Call) {
        let ills = *self.process.ills();
        let now = self.world.clock.elapsed();
        let lease_ms =
            u64::try_from(self.world.scenario.settings.lease.duration().as_millis()).unwrap_or(u64::MAX);
        if call == Call::Settle && ills.slow_settle_until > now {
            self.world.count(Fault::SlowSettle);
            sleep(self.world.dice.millis(lease_ms / 2..lease_ms * 2)).await;
        } else if ills.slow_until > now {
            self.world.count(Fault::SlowStore);
            let delay = self.world.dice.millis(100..lease_ms);
            self.process.excuse_for(delay);
            sleep(delay).await;
        } else {
            sleep(self.world.dice.millis(1..4)).await;
        }
    }

    fn fails(&self, fault: Fault) -> StoreError {
        self.world.count(fault);
        self.process.excuse_for(Duration::ZERO);
        StoreError::Unavailable { reason: fault.name().to_owned() }
    }

    async fn crash(&self, fault: Fault) {
        self.world.count(fault);
        self.process.crash();
        std::future::pending::<()>().await;
    }
}

#[async_trait]
impl Layer for FaultyStore {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn enqueue(
        &self,
        batch: &[EnqueueRequest],
    ) -> Result<Vec<Result<Enqueued, StoreError>>, StoreError> {
        self.call(Call::Write, self.inner.enqueue(batch)).await
    }

    fn wakeups(&self) -> Wakeups {
        if self.world.scenario.wakes { self.inner.wakeups() } else { Waker::default().subscribe() }
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<Claimed, StoreError> {
        if !self.process.claims() && request.limit > 0 {
            let worker_id = &self.process.worker_id;
            self.world.checker.broken("drain", format!("{worker_id} claims though it drains"));
        }
        let claimed = self.call(Call::Claim, self.inner.claim(request)).await?;
        self.process.received(claimed.leases.iter().map(|lease| lease.token));
        Ok(claimed)
    }

    async fn renew(&self, held: &[HeldLease], lease: Duration) -> Result<Vec<HeldLease>, StoreError> {
        self.call(Call::Renew, self.inner.renew(held, lease)).await
    }

    async fn settle(&self, worker: &WorkerId, batch: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
        self.call(Call::Settle, self.inner.settle(worker, batch)).await
    }

    async fn release(&self, held: &[HeldLease]) -> Result<(), StoreError> {
        self.process.gives_back(held.iter().map(|held| held.token));
        self.call(Call::Write, self.inner.release(held)).await
    }

    async fn dead_letters(&self, page: &PageRequest) -> Result<Page<EventView>, StoreError> {
        self.call(Call::Read, self.inner.dead_letters(page)).await
    }

    async fn events(&self, query: &EventQuery, page: &PageRequest) -> Result<Page<EventView>, StoreError> {
        self.call(Call::Read, self.inner.events(query, page)).await
    }

    async fn requeue(&self, event_id: &EventId, actor: &str) -> Result<EventView, StoreError> {
        self.call(Call::Write, self.inner.requeue(event_id, actor)).await
    }

    async fn cancel(
        &self,
        event_id: &EventId,
        actor: &str,
        reason: Option<&str>,
    ) -> Result<EventView, StoreError> {
        self.call(Call::Write, self.inner.cancel(event_id, actor, reason)).await
    }

    async fn report_circuits(&self, reports: &[CircuitReport]) -> Result<(), StoreError> {
        self.call(Call::Write, self.inner.report_circuits(reports)).await
    }

    async fn notices(&self, after: Option<NoticeCursor>, limit: usize) -> Result<NoticePage, StoreError> {
        self.call(Call::Read, self.inner.notices(after, limit)).await
    }

    async fn maintain(&self, retention: &Retention) -> Result<Maintained, StoreError> {
        self.call(Call::Write, self.inner.maintain(retention)).await
    }
}

/// A sender whose requests are seen by a witness, in a process that may crash before or after, or panic.
pub(crate) struct FaultySender {
    pub(crate) world: Arc<World>,
    pub(crate) process: Arc<Incarnation>,
    pub(crate) occupancy: Arc<Occupancy>,
}

impl FaultySender {
    async fn crash(&self, fault: Fault) {
        self.world.count(fault);
        self.process.crash();
        std::future::pending::<()>().await;
    }

    async fn crash_sometimes(&self, fault: Fault) {
        if self.world.strikes(10) {
            self.crash(fault).await;
        }
    }

    fn panic_sometimes(&self) {
        if self.world.strikes(3) {
            self.world.count(Fault::SenderPanic);
            // Unwinds without a message on the terminal.
            std::panic::resume_unwind(Box::new("planted"));
        }
    }
}

#[async_trait]
impl Sender for FaultySender {
    async fn send(&self, lease: &Lease, _timeout: Duration) -> Outcome {
        self.process.pass().await;
        let (_request, exceeded) = self.occupancy.enter(lease, &self.world.scenario.settings);
        if let Some(exceeded) = exceeded {
            self.world.checker.broken("slots", exceeded);
        }
        self.crash_sometimes(Fault::CrashBeforeSend).await;
        self.world.checker.request_arrives(lease);
        if is_poison(&lease.payload) {
            self.crash(Fault::PoisonEvent).await;
        }
        self.panic_sometimes();
        let manner = self.world.manner_of(&lease.destination_url);
        let (wall, stepped) = self.process.wall();
        let answer = answer(manner, self.world.clock.elapsed(), wall, &self.world.dice);
        if let Some(fault) = answer.fault {
            self.world.count(fault);
        }
        if stepped && answer.read_a_date {
            self.world.count(Fault::ClockStep);
        }
        sleep(answer.after).await;
        self.world.checker.request_answered(lease, &answer.outcome);
        self.crash_sometimes(Fault::CrashAfterSend).await;
        self.panic_sometimes();
        self.process.pass().await;
        answer.outcome
    }
}
