//! Settlements under any lease that was ever granted: held, lost, settled before, twice in one batch.

use std::sync::Arc;
use std::time::Duration;

use posthaste_domain::{Attempted, EventId, Lease, Outcome, Roll, Transition, WorkerId};
use posthaste_store::{Settled, Settlement, Store as _};

use crate::difference::{Agreed, Difference, same};
use crate::lengths::policy;
use crate::operation::{Attempt, Handle, Worker};
use crate::pair::{Both, Pair};

/// Longer than what passes unnoticed, so that its part in dating an attempt shows.
const ATTEMPT_TOOK: Duration = Duration::from_secs(40);

impl Pair<'_> {
    pub(crate) async fn settle(
        &mut self,
        handle: Handle,
        worker: Worker,
        attempts: &[Attempt],
    ) -> Agreed<String> {
        let picked: Vec<(&Attempt, Both<Lease>)> = attempts
            .iter()
            .filter_map(|attempt| Some((attempt, self.granted(attempt.lease)?.clone())))
            .collect();
        let batch = |lease: fn(&Both<Lease>) -> &Lease| -> Vec<Settlement> {
            picked.iter().map(|(attempt, both)| settlement(lease(both), attempt)).collect()
        };
        let worker = WorkerId::new(worker.name()).expect("visible ASCII");
        let store = self.store(handle).settle(&worker, &batch(|both| &both.store)).await;
        let store = store.map_err(|error| Difference::failed("settle", &error))?;
        let model = self.model.settle(&worker, &batch(|both| &both.model)).await;
        let model = model.expect("the model is always up");
        same("the number of answers", &model.len(), &store.len())?;
        for (((attempt, lease), store), model) in picked.iter().zip(&store).zip(&model) {
            self.same_settled(lease, &attempt.reply.outcome(), *store, *model)?;
        }
        for ((_, lease), model) in picked.iter().zip(&model) {
            if *model == Settled::Applied {
                self.record(lease).await;
                self.examine(handle.other(), &lease.event_id()).await?;
            }
        }
        Ok(format!("{store:?}"))
    }

    fn same_settled(
        &mut self,
        lease: &Both<Lease>,
        outcome: &Outcome,
        store: Settled,
        model: Settled,
    ) -> Agreed {
        let token = lease.model.token;
        let written = self.outcomes.get(&token);
        let allowed = match model {
            Settled::Applied => vec![model],
            // Another outcome under a token that is settled is no replay in the strict sense.
            Settled::Replayed if written != Some(outcome) => vec![Settled::Replayed, Settled::Stale],
            Settled::Replayed => vec![model],
            // The model has forgotten the attempt.
            Settled::Stale if written.is_some() && self.allowed.attempts_linger => {
                vec![Settled::Stale, Settled::Replayed]
            }
            Settled::Stale => vec![model],
        };
        if !allowed.contains(&store) {
            let event_id = &lease.store.event_id;
            return Err(Difference::new(format!(
                "the settlement of {event_id} differs:\n  model: {model:?}\n  store: {store:?}"
            )));
        }
        self.tally.count(settled(model), 1);
        if model == Settled::Applied {
            self.outcomes.insert(token, outcome.clone());
        }
        Ok(())
    }

    /// Remembers the attempt that was just written, for as long as it may be shown.
    async fn record(&mut self, lease: &Both<Lease>) {
        let detail = self.model.event(&lease.model.event_id).await.expect("it was settled just now");
        let written = detail.history.into_iter().find(|attempt| attempt.token == lease.model.token);
        self.attempts.entry(lease.model.key).or_default().extend(written);
    }
}

impl Both<Lease> {
    fn event_id(&self) -> Both<EventId> {
        Both { store: self.store.event_id.clone(), model: self.model.event_id.clone() }
    }
}

fn settlement(lease: &Lease, attempt: &Attempt) -> Settlement {
    let attempted = Attempted { outcome: attempt.reply.outcome(), duration: ATTEMPT_TOOK };
    let transition = Arc::new(Transition::of(lease, attempted, &policy(), Roll(0)));
    Settlement { transition, ended_ago: attempt.ended_ago }
}

const fn settled(settled: Settled) -> &'static str {
    match settled {
        Settled::Applied => "settled: applied",
        Settled::Replayed => "settled: replayed",
        Settled::Stale => "settled: stale",
    }
}
