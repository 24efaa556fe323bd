//! Retention. A store chooses the order and the number of its steps; the final state must be the model's.

use std::time::Duration;

use posthaste_store::{Retention, Store};

use crate::difference::{ComparisonResult, Difference};
use crate::operation::Handle;
use crate::sequence_run::SequenceRun;

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
        let retention = Retention { keep_for: keep, keep_dead_letters_for: keep_dead_letters, rows_max };
        let removed = maintain_until_done(&*self.store(handle), &retention).await?;
        let events = |run: &Self| run.model.with_state(|state| state.rows.len());
        let before = events(self);
        maintain_until_done(&self.model, &retention).await?;
        self.tally.add("events removed by retention", before - events(self));
        self.mark_removed_notices();
        self.compare_kept_notices(handle).await?;
        Ok(format!("{removed} removed"))
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
