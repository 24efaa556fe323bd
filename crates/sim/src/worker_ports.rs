//! The ports of one process: a store and a sender that inject faults.

mod activity;
mod registry;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use posthaste_domain::{DestinationId, EventId, Lease, Outcome, Timestamp, WorkerId};
use posthaste_engine::{LocalShortage, Sender, SharedProfiles};
use posthaste_store::{
    ActionRequest, AuditView, CircuitReport, ClaimRequest, ClaimResponse, DeadLetterQuery, DestinationState,
    DestinationStatus, DestinationView, EnqueueRequest, EnqueueResponse, EventQuery, EventView,
    ExpireRequest, ExpireResponse, LeaseRef, MaintenanceReport, NoticeCursor, NoticePage, Page, PageRequest,
    PauseRequest, ProbeResponse, Retention, SettleResult, Settlement, Store, StoreError, StoreLayer, Waker,
    Wakeups,
};

use crate::activity_log::ResultCounts;
use crate::client::is_poison;
use crate::fault::Fault;
use crate::in_flight::InFlightCounter;
use crate::process::Process;
use crate::receivers::plan_response;
use crate::time::sleep;
use crate::world::{World, WriteRefusal};

/// The store as a process sees it: over a network that fails, with possible crashes of the process at any call.
#[derive(Clone)]
pub(crate) struct FaultyStore {
    pub(crate) inner: Arc<dyn Store>,
    pub(crate) world: Arc<World>,
    pub(crate) process: Arc<Process>,
    /// False for producers and operators: they have network faults, but do not crash.
    pub(crate) can_crash: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    Read,
    Claim,
    Write,
    Renew,
    Settle,
    /// A trial write.
    CheckWrites,
    /// A report of the worker's activity.
    Report,
    /// A step of the background operations. It is frequent, and mostly has nothing to do.
    Advance,
}

impl Call {
    /// Returns the probability, in per mille, of a crash before the commit, and of one after it. Claims are frequent
    /// and most grant nothing, so theirs is low.
    const fn crash_per_mille(self) -> u64 {
        match self {
            Self::Read | Self::CheckWrites | Self::Advance => 0,
            Self::Claim | Self::Renew | Self::Report => 1,
            Self::Write => 4,
            Self::Settle => 15,
        }
    }
}

impl FaultyStore {
    /// Makes a store call with the faults in effect: latency, outage, crash before or after the commit, lost reply.
    async fn call<T>(
        &self,
        call: Call,
        inner: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.process.wait_while_stalled().await;
        self.delay(call).await;
        if self.world.is_store_down() {
            return Err(self.fail(Fault::StoreOutage));
        }
        if call == Call::Renew && self.process.faults().heartbeat_lost_until > self.world.clock.elapsed() {
            return Err(self.fail(Fault::LostHeartbeat));
        }
        if let Some(refused) = self.refusal(call) {
            return Err(refused);
        }
        if self.can_crash && self.world.fault_occurs(call.crash_per_mille()) {
            self.crash(Fault::CrashBeforeCommit).await;
        }
        let result = inner.await;
        if self.can_crash && self.world.fault_occurs(call.crash_per_mille()) {
            self.crash(Fault::CrashAfterCommit).await;
        }
        if call != Call::Read && self.world.fault_occurs(10) {
            return Err(self.fail(Fault::ReplyLost));
        }
        self.delay(call).await;
        self.process.wait_while_stalled().await;
        result
    }

    /// Delays a call by the network latency: a few milliseconds, or much more during a fault.
    async fn delay(&self, call: Call) {
        let faults = *self.process.faults();
        let now = self.world.clock.elapsed();
        let lease_ms =
            u64::try_from(self.world.scenario.settings.lease.duration().as_millis()).unwrap_or(u64::MAX);
        if call == Call::Settle && faults.slow_settle_until > now {
            self.world.count(Fault::SlowSettle);
            sleep(self.world.random.millis(lease_ms / 2..lease_ms * 2)).await;
        } else if faults.slow_until > now {
            self.world.count(Fault::SlowStore);
            let latency = self.world.random.millis(100..lease_ms);
            self.process.excuse_for(latency);
            sleep(latency).await;
        } else {
            sleep(self.world.random.millis(1..4)).await;
        }
    }

    /// Returns the refusal of a write, if the store refuses it now. A refused settle is no reason to lose a lease.
    fn refusal(&self, call: Call) -> Option<StoreError> {
        let fault = match (self.world.refused_writes()?, call) {
            (_, Call::Settle | Call::CheckWrites) => {
                self.process.record_refused_write();
                Fault::SettleRefused
            }
            (WriteRefusal::AllOfWorkers, Call::Claim | Call::Renew) => {
                self.process.excuse_for(Duration::ZERO);
                Fault::WriteRefused
            }
            _ => return None,
        };
        self.world.count(fault);
        Some(StoreError::Rejected { reason: fault.name().to_owned() })
    }

    /// P19: a process takes leases only after a trial write, and not while the store refuses its results.
    fn check_writes_are_accepted(&self) {
        if !self.process.writes_are_accepted() {
            let worker_id = &self.process.worker_id;
            let detail = format!("{worker_id} claims although its results cannot be written");
            self.world.checker.report_violation("P19", detail);
        }
    }

    /// Counts the fault and returns it as an error.
    fn fail(&self, fault: Fault) -> StoreError {
        self.world.count(fault);
        self.process.excuse_for(Duration::ZERO);
        StoreError::Unavailable { reason: fault.name().to_owned() }
    }

    /// Crashes the process. Never returns.
    async fn crash(&self, fault: Fault) {
        self.world.count(fault);
        self.process.crash();
        std::future::pending::<()>().await;
    }
}

#[async_trait]
impl StoreLayer for FaultyStore {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn enqueue(&self, request: EnqueueRequest) -> Result<EnqueueResponse, StoreError> {
        if request.lease.is_some() {
            self.check_writes_are_accepted();
        }
        let response = self.call(Call::Write, self.inner.enqueue(request)).await?;
        self.process.record_received(response.leases.iter().map(|lease| lease.token));
        Ok(response)
    }

    fn wakeups(&self) -> Wakeups {
        if self.world.scenario.sends_wakeups { self.inner.wakeups() } else { Waker::default().subscribe() }
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        if !self.process.record_claim() && request.limit > 0 {
            let worker_id = &self.process.worker_id;
            self.world.checker.report_violation("drain", format!("{worker_id} claims while it drains"));
        }
        if request.limit > 0 {
            self.check_writes_are_accepted();
        }
        let claimed = self.call(Call::Claim, self.inner.claim(request)).await?;
        self.process.record_claim_answer();
        self.process.record_received(claimed.leases.iter().map(|lease| lease.token));
        self.process.record_results(ResultCounts::of_failed(claimed.abandoned.len()));
        Ok(claimed)
    }

    async fn read_payload(&self, lease: LeaseRef) -> Result<Option<Bytes>, StoreError> {
        if self.world.fault_occurs(50) {
            self.world.count(Fault::SlowPayload);
            let lease = self.world.scenario.settings.lease.duration();
            let lease_ms = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX);
            sleep(self.world.random.millis(lease_ms / 2..lease_ms * 2)).await;
        }
        // Neither fault excuses the loss of the lease, which is renewed meanwhile.
        let read = if self.world.fault_occurs(50) {
            self.world.count(Fault::PayloadNotRead);
            Err(StoreError::Unavailable { reason: Fault::PayloadNotRead.name().to_owned() })
        } else {
            self.call(Call::Read, self.inner.read_payload(lease)).await
        };
        if !matches!(read, Ok(Some(_))) {
            self.world.checker.record_unsent(lease.token);
        }
        read
    }

    async fn renew(&self, held: &[LeaseRef], lease: Duration) -> Result<Vec<LeaseRef>, StoreError> {
        self.call(Call::Renew, self.inner.renew(held, lease)).await
    }

    async fn settle(&self, worker: &WorkerId, batch: &[Settlement]) -> Result<Vec<SettleResult>, StoreError> {
        let settled = self.call(Call::Settle, self.inner.settle(worker, batch)).await?;
        self.process.record_accepted_write();
        self.process.record_results(ResultCounts::of_settlements(batch, &settled, SettleResult::is_written));
        Ok(settled)
    }

    async fn check_writes(&self) -> Result<(), StoreError> {
        self.call(Call::CheckWrites, self.inner.check_writes()).await?;
        self.process.record_accepted_write();
        Ok(())
    }

    async fn release(&self, held: &[LeaseRef]) -> Result<(), StoreError> {
        self.process.record_released(held.iter().map(|held| held.token));
        self.call(Call::Write, self.inner.release(held)).await
    }

    async fn dead_letters(
        &self,
        query: &DeadLetterQuery,
        page: &PageRequest,
    ) -> Result<Page<EventView>, StoreError> {
        self.call(Call::Read, self.inner.dead_letters(query, page)).await
    }

    async fn events(&self, query: &EventQuery, page: &PageRequest) -> Result<Page<EventView>, StoreError> {
        self.call(Call::Read, self.inner.events(query, page)).await
    }

    async fn requeue(&self, event_id: &EventId, request: ActionRequest<'_>) -> Result<EventView, StoreError> {
        self.call(Call::Write, self.inner.requeue(event_id, request)).await
    }

    async fn cancel(
        &self,
        event_id: &EventId,
        request: ActionRequest<'_>,
        reason: Option<&str>,
    ) -> Result<EventView, StoreError> {
        self.call(Call::Write, self.inner.cancel(event_id, request, reason)).await
    }

    async fn discard(
        &self,
        event_id: &EventId,
        request: ActionRequest<'_>,
        reason: Option<&str>,
    ) -> Result<AuditView, StoreError> {
        self.call(Call::Write, self.inner.discard(event_id, request, reason)).await
    }

    async fn expire(&self, request: &ExpireRequest) -> Result<ExpireResponse, StoreError> {
        let response = self.call(Call::Write, self.inner.expire(request)).await?;
        self.process.record_results(ResultCounts::of_failed(response.expired.len()));
        Ok(response)
    }

    async fn destinations(
        &self,
        state: Option<DestinationState>,
        page: &PageRequest<DestinationId>,
    ) -> Result<Page<DestinationView, DestinationId>, StoreError> {
        self.call(Call::Read, self.inner.destinations(state, page)).await
    }

    async fn pause_destination(
        &self,
        id: DestinationId,
        pause: &PauseRequest,
    ) -> Result<DestinationStatus, StoreError> {
        self.call(Call::Write, self.inner.pause_destination(id, pause)).await
    }

    async fn resume_destination(
        &self,
        id: DestinationId,
        actor: &str,
    ) -> Result<DestinationStatus, StoreError> {
        self.call(Call::Write, self.inner.resume_destination(id, actor)).await
    }

    async fn probe_destination(&self, id: DestinationId, actor: &str) -> Result<ProbeResponse, StoreError> {
        self.call(Call::Write, self.inner.probe_destination(id, actor)).await
    }

    async fn report_circuits(&self, reports: &[CircuitReport]) -> Result<(), StoreError> {
        self.call(Call::Write, self.inner.report_circuits(reports)).await
    }

    async fn notices(&self, after: Option<NoticeCursor>, limit: usize) -> Result<NoticePage, StoreError> {
        self.call(Call::Read, self.inner.notices(after, limit)).await
    }

    async fn maintain(&self, retention: &Retention) -> Result<MaintenanceReport, StoreError> {
        let keep_unused_destinations_for = Some(self.world.scenario.keep_unused_destinations_for);
        let retention = Retention { keep_unused_destinations_for, ..*retention };
        self.call(Call::Write, self.inner.maintain(&retention)).await
    }
}

/// A sender that logs each request with the checker, and may crash its process or panic before or after it.
pub(crate) struct FaultySender {
    pub(crate) world: Arc<World>,
    pub(crate) process: Arc<Process>,
    pub(crate) in_flight: Arc<InFlightCounter>,
    /// The keys with which the engine signs the requests to endpoints.
    pub(crate) profiles: SharedProfiles,
}

impl FaultySender {
    /// Crashes the process. Never returns.
    async fn crash(&self, fault: Fault) {
        self.world.count(fault);
        self.process.crash();
        std::future::pending::<()>().await;
    }

    async fn crash_sometimes(&self, fault: Fault) {
        if self.world.fault_occurs(10) {
            self.crash(fault).await;
        }
    }

    fn panic_sometimes(&self) {
        if self.world.fault_occurs(3) {
            self.world.count(Fault::SenderPanic);
            // Panics without printing a message.
            std::panic::resume_unwind(Box::new("injected"));
        }
    }
}

#[async_trait]
impl Sender for FaultySender {
    async fn send(
        &self,
        lease: &Lease,
        now: Timestamp,
        _timeout: Duration,
    ) -> Result<Outcome, LocalShortage> {
        self.world.checker.check_request_time(lease, now, &self.process);
        let profile = self.profiles.for_lease(lease);
        self.world.checker.check_signature(lease, now, profile.as_deref(), &self.process);
        self.process.wait_while_stalled().await;
        if let Some(shortage) = self.process.shortage() {
            self.world.count(Fault::LocalShortage);
            self.world.checker.record_unsent(lease.token);
            return Err(shortage);
        }
        let (_request, exceeded) = self.in_flight.begin_request(lease, &self.world.scenario.settings);
        if let Some(exceeded) = exceeded {
            self.world.checker.report_violation("slots", exceeded);
        }
        self.crash_sometimes(Fault::CrashBeforeSend).await;
        self.world.checker.record_request(lease);
        if is_poison(lease.payload.expect_loaded()) {
            self.crash(Fault::PoisonEvent).await;
        }
        self.panic_sometimes();
        let behavior = self.world.behavior_of(&lease.destination_url);
        let (elapsed, answers_within) = (self.world.clock.elapsed(), self.world.scenario.answers_within);
        let response = plan_response(behavior, elapsed, now, answers_within, &self.world.random);
        if let Some(fault) = response.fault {
            self.world.count(fault);
        }
        if self.process.is_wall_clock_wrong() {
            self.world.count(Fault::ClockStep);
        }
        sleep(response.after).await;
        self.world.checker.record_response(lease, &response.outcome);
        self.crash_sometimes(Fault::CrashAfterSend).await;
        self.panic_sometimes();
        self.process.wait_while_stalled().await;
        Ok(response.outcome)
    }
}
