//! Writes batches of results, and keeps what the store does not accept.

use std::sync::Arc;
use std::time::Duration;

use posthaste_store::{LeaseRef, SettleResult, Settlement, StoreError};

use super::PendingSettle;
use super::backlog::{Backlog, FailingWrites};
use crate::backoff::Backoff;
use crate::supervise::catch_store_panic;
use crate::worker::Worker;

/// Results refused alone, while nothing was accepted, after which a round asks for a trial write instead of splitting
/// further.
const REFUSED_ALONE_MAX: usize = 2;
/// Delay before the first retry of a quarantined result. Each further delay is twice as long.
const QUARANTINE_DELAY_MIN: Duration = Duration::from_secs(1);
const QUARANTINE_DELAY_MAX: Duration = Duration::from_secs(60);

/// Writes batches, with retries.
pub(super) struct BatchWriter {
    pub(super) backlog: Arc<Backlog>,
    pub(super) worker: Arc<Worker>,
}

/// What one round of tries has left unwritten.
#[derive(Default)]
struct Round {
    unwritten: Vec<PendingSettle>,
    /// Results that the store refuses although it accepts other writes, with its last error.
    refused: Vec<PendingSettle>,
    refusal: Option<StoreError>,
    /// Why the store accepts no write.
    failure: Option<StoreError>,
}

impl BatchWriter {
    /// Writes a batch, and retries with backoff until every result is written or quarantined. Returns the quarantined
    /// results. A drain ends the retries and gives the results up that are not written.
    pub(super) async fn write(&self, batch: Vec<PendingSettle>) -> Vec<PendingSettle> {
        let (mut unwritten, mut quarantined) = (batch, Vec::new());
        let (mut failing, mut backoff) = (None, Backoff::new());
        loop {
            let is_last_try = self.backlog.is_last_try();
            let round = self.try_batch(unwritten, &mut failing).await;
            quarantined.extend(self.quarantine(round.refused, round.refusal.as_ref()));
            unwritten = round.unwritten;
            if unwritten.is_empty() {
                return quarantined;
            }
            let Some(error) = round.failure else { continue };
            if is_last_try {
                self.give_up(unwritten);
                return quarantined;
            }
            if failing
                .as_ref()
                .is_some_and(|failing| failing.take_log_turn(self.worker.ports.clock.monotonic()))
            {
                tracing::error!(worker_id = %self.worker.settings.worker_id, code = error.code(), %error,
                    results = self.backlog.unwritten(),
                    "results cannot be written; they are kept, and nothing is claimed until they are written");
            }
            tokio::select! {
                biased;
                () = self.backlog.last_try() => {}
                () = self.worker.ports.clock.sleep(backoff.next()) => {}
            }
        }
    }

    /// Retries quarantined results until they are written or a drain ends the retries.
    pub(super) async fn retry_quarantined(&self, mut results: Vec<PendingSettle>) {
        let mut delay = QUARANTINE_DELAY_MIN;
        while !results.is_empty() {
            tokio::select! {
                biased;
                () = self.backlog.last_try() => {}
                () = self.worker.ports.clock.sleep(delay) => {}
            }
            delay = (delay * 2).min(QUARANTINE_DELAY_MAX);
            let is_last_try = self.backlog.is_last_try();
            results = self.write(results).await;
            if is_last_try {
                self.give_up(results);
                return;
            }
        }
    }

    /// Tries to write a batch once. If the store refuses it, splits it in half until the refused results are alone. From
    /// the first error on, the worker claims nothing while `failing` is held.
    async fn try_batch(&self, batch: Vec<PendingSettle>, failing: &mut Option<FailingWrites>) -> Round {
        let mut parts = vec![batch];
        let mut round = Round::default();
        let mut is_accepted = false;
        while let Some(mut part) = parts.pop() {
            let error = match self.settle(&part).await {
                Ok(settled) => {
                    is_accepted = true;
                    self.report(part, settled);
                    continue;
                }
                Err(error) => error,
            };
            failing.get_or_insert_with(|| self.backlog.start_failing()).record(&error);
            if error.is_transient() {
                let refused = std::mem::take(&mut round.refused);
                round.unwritten = [refused, part].into_iter().chain(parts).flatten().collect();
                round.failure = Some(error);
                return round;
            }
            round.refusal = Some(error);
            if part.len() > 1 {
                let second = part.split_off(part.len() / 2);
                parts.extend([second, part]);
            } else {
                round.refused.append(&mut part);
            }
            if !is_accepted && round.refused.len() >= REFUSED_ALONE_MAX {
                break;
            }
        }
        round.unwritten = parts.into_iter().flatten().collect();
        // A part that was accepted shows nothing: the store may have begun to refuse writes since.
        if !round.refused.is_empty() && self.trial_write_fails().await {
            round.unwritten.append(&mut round.refused);
            round.failure.clone_from(&round.refusal);
        }
        round
    }

    async fn trial_write_fails(&self) -> bool {
        catch_store_panic(self.worker.ports.store.check_writes()).await.is_err()
    }

    /// Marks results as refused for reasons of their own, and logs each once.
    fn quarantine(&self, mut refused: Vec<PendingSettle>, error: Option<&StoreError>) -> Vec<PendingSettle> {
        for result in &mut refused {
            if !result.waiting.quarantine() {
                continue;
            }
            let event_id = result.delivery.transition.event_id();
            tracing::error!(%event_id, worker_id = %self.worker.settings.worker_id, code = error.map(StoreError::code),
                error = error.map(tracing::field::display),
                "the store refuses this result but accepts other writes; it is kept and retried. Cancel the event to \
                 drop it");
        }
        refused
    }

    /// Writes results with one call.
    async fn settle(&self, batch: &[PendingSettle]) -> Result<Vec<SettleResult>, StoreError> {
        let now = self.worker.ports.clock.monotonic();
        let settlements: Vec<Settlement> = batch
            .iter()
            .map(|pending| Settlement {
                transition: Arc::clone(&pending.delivery.transition),
                ended_ago: now.saturating_sub(pending.ended_at),
            })
            .collect();
        match catch_store_panic(self.worker.ports.store.settle(&self.worker.settings.worker_id, &settlements))
            .await
        {
            Ok(results) if results.len() != batch.len() => {
                let reason =
                    format!("the store returned {} results for {} settlements", results.len(), batch.len());
                Err(StoreError::Rejected { reason })
            }
            result => result,
        }
    }

    /// Reports what the store did with each result. This ends the renewals of their leases, and may make room for claims.
    fn report(&self, batch: Vec<PendingSettle>, results: Vec<SettleResult>) {
        let room_before = self.worker.unsettled_room();
        for (pending, result) in batch.into_iter().zip(results) {
            pending.delivery.report(&self.worker, Some(result));
        }
        self.worker.wake_claimer_after_room_of(room_before);
    }

    /// Gives up results at the end of a drain: the process ends before they are written. The drain releases their leases, so
    /// that their events lose none when they are claimed again.
    fn give_up(&self, results: Vec<PendingSettle>) {
        for pending in results {
            pending.delivery.report(&self.worker, None);
            self.worker.drain.count_unwritten();
            self.backlog.give_up(LeaseRef::from(&pending.delivery.lease));
        }
    }
}
