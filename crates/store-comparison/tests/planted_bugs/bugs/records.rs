//! Bugs of enqueues, operator actions, reads and retention.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use posthaste_domain::{DeliveryStatus, EventId};
use posthaste_store::{
    ActionRequest, AuditView, CircuitReport, DeadLetterQuery, EnqueueRequest, EnqueueResponse, EventView,
    ExpireRequest, ExpireResponse, Idempotency, LayeredStore, MaintenanceReport, NoticeCursor, NoticePage,
    OpenCircuitReport, Overview, Page, PageRequest, Retention, Store, StoreError, StoreLayer,
};
use posthaste_store_memory::MemoryStore;

store_bug! {
    requeue_keeps_attempts;

    async fn requeue(&self, event_id: &EventId, request: ActionRequest<'_>) -> Result<EventView, StoreError> {
        let attempts = self.memory.event(event_id).await?.event.attempts;
        let view = self.memory.requeue(event_id, request).await?;
        self.memory.with_state(|state| {
            state.row_mut(view.key).expect("the event was just requeued").attempts = attempts;
        });
        Ok(EventView { attempts, ..view })
    }
}

store_bug! {
    cancel_is_silent;

    async fn cancel(&self, event_id: &EventId, request: ActionRequest<'_>, reason: Option<&str>) -> Result<EventView, StoreError> {
        let notices = self.memory.with_state(|state| state.notices.len());
        let cancelled = self.memory.cancel(event_id, request, reason).await;
        self.memory.with_state(|state| state.notices.truncate(notices));
        cancelled
    }
}

store_bug! {
    cancel_is_not_audited;

    async fn cancel(&self, event_id: &EventId, request: ActionRequest<'_>, reason: Option<&str>) -> Result<EventView, StoreError> {
        let cancelled = self.memory.cancel(event_id, request, reason).await?;
        self.memory.with_state(|state| state.audit.pop());
        Ok(cancelled)
    }
}

store_bug! {
    discard_frees_the_id;

    async fn discard(&self, event_id: &EventId, request: ActionRequest<'_>, reason: Option<&str>) -> Result<AuditView, StoreError> {
        let discarded = self.memory.discard(event_id, request, reason).await?;
        self.memory.with_state(|state| state.discarded.remove(event_id));
        Ok(discarded)
    }
}

store_bug! {
    cancel_forgets_why;

    async fn cancel(&self, event_id: &EventId, request: ActionRequest<'_>, reason: Option<&str>) -> Result<EventView, StoreError> {
        let cancelled = self.memory.cancel(event_id, request, reason).await?;
        self.memory.with_state(|state| {
            if let Some((_, audit)) = state.audit.last_mut() {
                audit.reason = None;
            }
        });
        Ok(cancelled)
    }
}

store_bug! {
    retention_takes_failed_events;

    async fn maintain(&self, retention: &Retention) -> Result<MaintenanceReport, StoreError> {
        if retention.keep_for.is_some() {
            self.memory.with_state(|state| state.rows.retain(|_, row| row.status != DeliveryStatus::Failed));
        }
        self.memory.maintain(retention).await
    }
}

store_bug! {
    retention_counts_from_arrival;

    async fn maintain(&self, retention: &Retention) -> Result<MaintenanceReport, StoreError> {
        self.memory.with_state(|state| {
            for row in state.rows.values_mut().filter(|row| row.delivered_at.is_some()) {
                row.delivered_at = Some(row.created_at);
            }
        });
        self.memory.maintain(retention).await
    }
}

store_bug! {
    notices_are_kept;

    async fn maintain(&self, retention: &Retention) -> Result<MaintenanceReport, StoreError> {
        let notices = self.memory.with_state(|state| state.notices.clone());
        let maintained = self.memory.maintain(retention).await;
        self.memory.with_state(|state| state.notices = notices);
        maintained
    }
}

store_bug! {
    /// Keeps the attempts of events that retention keeps.
    attempts_are_kept;

    async fn maintain(&self, retention: &Retention) -> Result<MaintenanceReport, StoreError> {
        let attempts = self.memory.with_state(|state| state.attempts.clone());
        let maintained = self.memory.maintain(retention).await;
        self.memory.with_state(|state| {
            state.attempts = attempts;
            let rows = &state.rows;
            state.attempts.retain(|_, attempt| rows.contains_key(&attempt.key));
        });
        maintained
    }
}

store_bug! {
    overview_counts_leased_as_ready;

    async fn overview(&self) -> Result<Overview, StoreError> {
        let overview = self.memory.overview().await?;
        let leased = self.memory.with_state(|state| state.rows.values().filter(|row| row.lease.is_some()).count());
        Ok(Overview { pending_ready: overview.pending_ready + leased as u64, ..overview })
    }
}

store_bug! {
    overview_counts_no_cancelled_events;

    async fn overview(&self) -> Result<Overview, StoreError> {
        Ok(Overview { cancelled: 0, ..self.memory.overview().await? })
    }
}

store_bug! {
    /// Compares with `<=` instead of `<`, so that a page repeats the last row of the one before.
    pages_overlap;

    async fn dead_letters(
        &self,
        query: &DeadLetterQuery,
        page: &PageRequest,
    ) -> Result<Page<EventView>, StoreError> {
        let after = page.after.map(|mut after| {
            after.key.0 += 1;
            after
        });
        self.memory.dead_letters(query, &PageRequest { after, ..*page }).await
    }
}

store_bug! {
    circuits_never_expire;

    async fn report_circuits(&self, reports: &[CircuitReport]) -> Result<(), StoreError> {
        let forever = |report: &CircuitReport| CircuitReport {
            open: report.open.clone().map(|open| OpenCircuitReport { expires_in: Duration::MAX, ..open }),
            ..report.clone()
        };
        self.memory.report_circuits(&reports.iter().map(forever).collect::<Vec<_>>()).await
    }
}

store_bug! {
    keys_never_expire;

    async fn enqueue(&self, request: EnqueueRequest) -> Result<EnqueueResponse, StoreError> {
        let keep = |idempotency: Idempotency| Idempotency { keep_for: Duration::MAX, ..idempotency };
        let idempotency = request.idempotency.map(keep);
        self.memory.enqueue(EnqueueRequest { idempotency, ..request }).await
    }
}

store_bug! {
    producers_are_forgotten;

    async fn enqueue(&self, request: EnqueueRequest) -> Result<EnqueueResponse, StoreError> {
        self.memory.enqueue(EnqueueRequest { stored_by: None, ..request }).await
    }
}

store_bug! {
    /// Stores the events before the one that was refused.
    refused_requests_are_stored_in_part;

    async fn enqueue(&self, request: EnqueueRequest) -> Result<EnqueueResponse, StoreError> {
        let accepted = request.events.iter().take_while(|event| event.event_id().is_none());
        let part = EnqueueRequest::new(accepted.cloned().collect());
        let response = self.memory.enqueue(request).await;
        if response.is_err() {
            self.memory.enqueue(part).await?;
        }
        response
    }
}

store_bug! {
    /// Misses a notice, as a reader of sequence numbers does when they are committed out of order.
    notices_skip_one;

    async fn notices(&self, after: Option<NoticeCursor>, limit: usize) -> Result<NoticePage, StoreError> {
        let mut page = self.memory.notices(after, limit).await?;
        if page.notices.len() > 1 {
            page.notices.remove(0);
        }
        Ok(page)
    }
}

store_bug! {
    expiry_ignores_requeues;

    async fn expire(&self, request: &ExpireRequest) -> Result<ExpireResponse, StoreError> {
        let actions: Vec<_> = self.memory.with_state(|state| {
            state.rows.iter_mut().map(|(key, row)| (*key, row.manual_last.take())).collect()
        });
        let expired = self.memory.expire(request).await;
        self.memory.with_state(|state| {
            for (key, manual_last) in actions {
                state.rows.get_mut(&key).expect("rows stay").manual_last = manual_last;
            }
        });
        expired
    }
}

store_bug! {
    expiry_forgets_the_error;

    async fn expire(&self, request: &ExpireRequest) -> Result<ExpireResponse, StoreError> {
        let expired = self.memory.expire(request).await?;
        self.memory.with_state(|state| {
            for row in state.rows.values_mut().filter(|row| expired.expired.contains(&row.event_id)) {
                row.last_error = Some("expired".to_owned());
            }
        });
        Ok(expired)
    }
}
