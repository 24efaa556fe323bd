//! The shared store with a check after every operation that may change an event.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use posthaste_domain::{DestinationId, EventId, WorkerId};
use posthaste_store::{
    ActionRequest, AuditView, CircuitReport, ClaimRequest, ClaimResponse, DestinationStatus, EnqueueRequest,
    EnqueueResponse, EventView, ExpireRequest, ExpireResponse, LeaseRef, MaintenanceReport, PauseRequest,
    Retention, SettleResult, Settlement, Store, StoreError, StoreLayer,
};

use super::Checker;
use super::step::Step;
use crate::activity_log::ResultCounts;
use crate::process::Process;

/// The shared store, as one process uses it.
#[derive(Clone)]
pub(crate) struct CheckedStore {
    pub(super) inner: Arc<dyn Store>,
    pub(super) checker: Arc<Checker>,
    pub(super) process: Arc<Process>,
}

#[async_trait]
impl StoreLayer for CheckedStore {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn enqueue(&self, request: EnqueueRequest) -> Result<EnqueueResponse, StoreError> {
        let lease = request.lease.clone();
        let response = self.inner.enqueue(request).await;
        self.checker.check(&Step::Enqueue {
            process: &self.process,
            lease: lease.as_ref(),
            response: response.as_ref().ok(),
        });
        response
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        let response = self.inner.claim(request).await?;
        self.checker.check(&Step::Claim { process: &self.process, request, response: &response });
        self.checker.record_written(&self.process, ResultCounts::of_failed(response.abandoned.len()));
        Ok(response)
    }

    async fn renew(&self, held: &[LeaseRef], lease: Duration) -> Result<Vec<LeaseRef>, StoreError> {
        let lost = self.inner.renew(held, lease).await?;
        self.checker.check(&Step::Renew { held, lease, lost: &lost });
        Ok(lost)
    }

    async fn settle(&self, worker: &WorkerId, batch: &[Settlement]) -> Result<Vec<SettleResult>, StoreError> {
        let settled = self.inner.settle(worker, batch).await?;
        self.checker.check(&Step::Settle { batch, settled: &settled });
        let is_applied = |settled| settled == SettleResult::Applied;
        let written = ResultCounts::of_settlements(batch, &settled, is_applied);
        self.checker.record_written(&self.process, written);
        Ok(settled)
    }

    async fn release(&self, held: &[LeaseRef]) -> Result<(), StoreError> {
        self.inner.release(held).await?;
        self.checker.check(&Step::Release { held });
        Ok(())
    }

    async fn requeue(&self, event_id: &EventId, request: ActionRequest<'_>) -> Result<EventView, StoreError> {
        let requeued = self.inner.requeue(event_id, request).await;
        let refused = requeued.is_err();
        self.checker.check_action(Step::Requeue { event_id, refused }, event_id, request, refused);
        requeued
    }

    async fn cancel(
        &self,
        event_id: &EventId,
        request: ActionRequest<'_>,
        reason: Option<&str>,
    ) -> Result<EventView, StoreError> {
        let cancelled = self.inner.cancel(event_id, request, reason).await;
        let refused = cancelled.is_err();
        self.checker.check_action(Step::Cancel { event_id, refused }, event_id, request, refused);
        cancelled
    }

    async fn discard(
        &self,
        event_id: &EventId,
        request: ActionRequest<'_>,
        reason: Option<&str>,
    ) -> Result<AuditView, StoreError> {
        let discarded = self.inner.discard(event_id, request, reason).await;
        let refused = discarded.is_err();
        self.checker.check_action(Step::Discard { event_id, refused }, event_id, request, refused);
        discarded
    }

    async fn expire(&self, request: &ExpireRequest) -> Result<ExpireResponse, StoreError> {
        let response = self.inner.expire(request).await?;
        self.checker.check(&Step::Expire { request, response: &response });
        self.checker.record_written(&self.process, ResultCounts::of_failed(response.expired.len()));
        Ok(response)
    }

    async fn pause_destination(
        &self,
        id: DestinationId,
        pause: &PauseRequest,
    ) -> Result<DestinationStatus, StoreError> {
        let status = self.inner.pause_destination(id, pause).await?;
        self.checker.record_operator_pause(id, pause.duration());
        Ok(status)
    }

    async fn resume_destination(
        &self,
        id: DestinationId,
        actor: &str,
    ) -> Result<DestinationStatus, StoreError> {
        let status = self.inner.resume_destination(id, actor).await?;
        self.checker.record_resume(id);
        Ok(status)
    }

    async fn report_circuits(&self, reports: &[CircuitReport]) -> Result<(), StoreError> {
        let tripped = reports.iter().filter(|report| report.open.is_some()).count();
        self.checker.record_circuit_reports(tripped);
        self.checker.check_circuits_after_resume(&self.process, reports);
        self.checker.check_closed_circuits(&self.process, reports);
        self.inner.report_circuits(reports).await
    }

    async fn maintain(&self, retention: &Retention) -> Result<MaintenanceReport, StoreError> {
        let maintained = self.inner.maintain(retention).await;
        self.checker.check(&Step::Maintain { retention });
        maintained
    }
}
