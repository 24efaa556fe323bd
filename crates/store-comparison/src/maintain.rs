//! Retention. A store chooses the order and the number of its steps; the final state must be the model's.

use std::collections::BTreeSet;
use std::time::Duration;

use posthaste_domain::DestinationId;
use posthaste_store::{Retention, Store};

use crate::difference::{ComparisonResult, Difference};
use crate::durations::UNUSED_DESTINATIONS_KEPT_FOR;
use crate::operation::Handle;
use crate::sequence_run::SequenceRun;

/// More steps than several passes over the destinations of a sequence take.
const DESTINATION_STEPS_MAX: usize = 50;
/// More steps than a sequence has rows.
const STEPS_MAX: usize = 2_000;

impl SequenceRun<'_> {
    pub(crate) async fn maintain(
        &mut self,
        handle: Handle,
        keep: Option<Duration>,
        keep_dead_letters: Option<Duration>,
        rows_max: usize,
    ) -> ComparisonResult<String> {
        let retention = Retention {
            keep_for: keep,
            keep_dead_letters_for: keep_dead_letters,
            keep_unused_destinations_for: Some(UNUSED_DESTINATIONS_KEPT_FOR),
            rows_max,
        };
        let removed = maintain_until_done(&*self.store(handle), &retention).await?;
        let events = |run: &Self| run.model.with_state(|state| state.rows.len());
        let (before, destinations) = (events(self), self.model_destinations());
        maintain_until_done(&self.model, &retention).await?;
        self.tally.add("events removed by retention", before - events(self));
        let unused: Vec<DestinationId> =
            destinations.into_iter().filter(|id| !self.model_destinations().contains(id)).collect();
        self.tally.add("destinations removed", unused.len());
        self.await_removal(handle, &retention, &unused).await?;
        // Maintenance cancels the pending events of deleted endpoints.
        let store = self.store(handle);
        self.compare_new_notices(&*store).await?;
        self.mark_removed_notices();
        self.compare_kept_notices(handle).await?;
        Ok(format!("{removed} removed"))
    }
}

impl SequenceRun<'_> {
    fn model_destinations(&self) -> BTreeSet<DestinationId> {
        self.model.with_state(|state| state.destinations.keys().copied().collect())
    }

    /// Runs maintenance until the store has removed these destinations of the model too. A store may take several passes over
    /// its destinations.
    async fn await_removal(
        &self,
        handle: Handle,
        retention: &Retention,
        unused: &[DestinationId],
    ) -> ComparisonResult {
        let store = self.store(handle);
        for model in unused {
            let id = *self
                .ids
                .destinations
                .store_of(model)
                .expect("every destination of the model has been paired");
            let mut steps = 0;
            while store.destination(id).await.is_ok() {
                steps += 1;
                if steps > DESTINATION_STEPS_MAX {
                    return Err(Difference::new(format!("the unused destination {id:?} was not removed")));
                }
                let step = store.maintain(retention).await;
                step.map_err(|error| Difference::failed("maintain", &error))?;
            }
        }
        Ok(())
    }
}

async fn maintain_until_done(store: &dyn Store, retention: &Retention) -> ComparisonResult<usize> {
    let mut removed = 0;
    for _ in 0..STEPS_MAX {
        let step = store.maintain(retention).await;
        let step = step.map_err(|error| Difference::failed("maintain", &error))?;
        if step.removed > retention.rows_max {
            return Err(Difference::new(format!("one step of {retention:?} removed {} rows", step.removed)));
        }
        removed += step.removed;
        if !step.has_more {
            return Ok(removed);
        }
    }
    Err(Difference::new(format!("{STEPS_MAX} steps of {retention:?} were not enough")))
}
