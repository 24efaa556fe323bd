//! Settlements under any lease ever granted: held, lost, settled before, or twice in one batch.

use std::sync::Arc;
use std::time::Duration;

use posthaste_domain::{AttemptResult, EventId, Lease, Outcome, RandomDraw, Transition, WorkerId};
use posthaste_store::{SettleResult, Settlement, Store as _};

use crate::difference::{ComparisonResult, Difference, compare};
use crate::durations::retry_policy;
use crate::operation::{AttemptSpec, Handle, Worker};
use crate::sequence_run::{Counterparts, SequenceRun};

/// Duration of every attempt. Longer than the tolerance, so that the comparison notices a store that ignores it.
const ATTEMPT_DURATION: Duration = Duration::from_secs(40);

impl SequenceRun<'_> {
    pub(crate) async fn settle(
        &mut self,
        handle: Handle,
        worker: Worker,
        attempts: &[AttemptSpec],
    ) -> ComparisonResult<String> {
        let picked: Vec<(&AttemptSpec, Counterparts<Lease>)> = attempts
            .iter()
            .filter_map(|attempt| Some((attempt, self.lease(attempt.lease)?.clone())))
            .filter(|(_, lease)| !self.may_differ_by_removal(lease))
            .collect();
        let batch = |lease: fn(&Counterparts<Lease>) -> &Lease| -> Vec<Settlement> {
            picked.iter().map(|(attempt, both)| settlement(lease(both), attempt)).collect()
        };
        let worker = WorkerId::new(worker.name()).expect("visible ASCII");
        let store = self.store(handle).settle(&worker, &batch(|lease| &lease.store)).await;
        let store = store.map_err(|error| Difference::failed("settle", &error))?;
        let model = self.model.settle(&worker, &batch(|lease| &lease.model)).await;
        let model = model.expect("the model is always up");
        compare("the number of results", &model.len(), &store.len())?;
        for (((attempt, lease), store), model) in picked.iter().zip(&store).zip(&model) {
            self.compare_settle_results(lease, &attempt.reply.outcome(), *store, *model)?;
        }
        // Of one call, a history shows the applied results first.
        for recorded in [SettleResult::Applied, SettleResult::Stale] {
            for ((_, lease), _) in picked.iter().zip(&model).filter(|(_, model)| **model == recorded) {
                self.record_attempt(lease).await;
            }
        }
        for (_, lease) in &picked {
            self.compare_event(handle.other(), &lease.event_id()).await?;
        }
        Ok(format!("{store:?}"))
    }

    fn compare_settle_results(
        &mut self,
        lease: &Counterparts<Lease>,
        outcome: &Outcome,
        store: SettleResult,
        model: SettleResult,
    ) -> ComparisonResult {
        let token = lease.model.token;
        let written = self.outcomes.get(&token);
        let allowed = match model {
            SettleResult::Applied => vec![model],
            // Another outcome under a settled token: a store may report it as a replay or as stale.
            SettleResult::Replayed if written != Some(outcome) => {
                vec![SettleResult::Replayed, SettleResult::Stale]
            }
            SettleResult::Replayed => vec![model],
            // The model has removed the attempt, which the store may still have.
            SettleResult::Stale if written.is_some() && self.allowed.late_attempt_removal => {
                vec![SettleResult::Stale, SettleResult::Replayed]
            }
            SettleResult::Stale => vec![model],
        };
        if !allowed.contains(&store) {
            let event_id = &lease.store.event_id;
            return Err(Difference::new(format!(
                "the settlement of {event_id} differs:\n  model: {model:?}\n  store: {store:?}"
            )));
        }
        self.tally.add(tally_name(model), 1);
        if model == SettleResult::Applied {
            self.outcomes.insert(token, outcome.clone());
        }
        Ok(())
    }

    /// Returns whether the model has removed an attempt that the store may still have: the two would record a repeated
    /// settlement differently.
    fn may_differ_by_removal(&self, lease: &Counterparts<Lease>) -> bool {
        let Lease { key, token, .. } = lease.model;
        let was_recorded = self
            .attempts
            .get(&key)
            .is_some_and(|attempts| attempts.iter().any(|attempt| attempt.token == token));
        let is_recorded = self.model.with_state(|state| state.attempts.contains_key(&token));
        self.allowed.late_attempt_removal && was_recorded && !is_recorded
    }

    /// Stores the attempt that was just settled, for the comparison of histories. A settlement that was not applied is
    /// recorded once, and not at all if its event has been removed.
    async fn record_attempt(&mut self, lease: &Counterparts<Lease>) {
        let Ok(detail) = self.model.event(&lease.model.event_id).await else { return };
        let written = detail.history.into_iter().find(|attempt| attempt.token == lease.model.token);
        let known = self.attempts.entry(lease.model.key).or_default();
        known.extend(written.filter(|written| !known.contains(written)));
    }
}

impl Counterparts<Lease> {
    fn event_id(&self) -> Counterparts<EventId> {
        Counterparts { store: self.store.event_id.clone(), model: self.model.event_id.clone() }
    }
}

fn settlement(lease: &Lease, attempt: &AttemptSpec) -> Settlement {
    let result = AttemptResult { outcome: attempt.reply.outcome(), duration: ATTEMPT_DURATION };
    let transition = Arc::new(Transition::from_attempt(lease, result, &retry_policy(), RandomDraw(0)));
    Settlement { transition, ended_ago: attempt.ended_ago }
}

const fn tally_name(result: SettleResult) -> &'static str {
    match result {
        SettleResult::Applied => "settled: applied",
        SettleResult::Replayed => "settled: replayed",
        SettleResult::Stale => "settled: stale",
    }
}
