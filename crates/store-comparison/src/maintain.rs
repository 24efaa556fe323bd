//! Retention. In which order and in how many steps a store forgets is its own business; where it ends up is not.

use std::time::Duration;

use posthaste_store::{Retention, Store};

use crate::difference::{Agreed, Difference};
use crate::operation::Handle;
use crate::pair::Pair;

/// Far more than all rows of a sequence, one by one.
const STEPS_MAX: usize = 2_000;

impl Pair<'_> {
    pub(crate) async fn maintain(
        &mut self,
        handle: Handle,
        keep: Option<Duration>,
        rows_max: usize,
    ) -> Agreed<String> {
        let retention = Retention { keep, rows_max };
        let removed = until_done(&*self.store(handle), &retention).await?;
        let events = |pair: &Self| pair.model.with_state(|state| state.rows.len());
        let before = events(self);
        until_done(&self.model, &retention).await?;
        self.tally.count("events forgotten", before - events(self));
        self.forget_notices();
        self.reread_notices(handle).await?;
        Ok(format!("{removed} removed"))
    }
}

async fn until_done(store: &dyn Store, retention: &Retention) -> Agreed<usize> {
    let mut removed = 0;
    for _ in 0..STEPS_MAX {
        let step = store.maintain(retention).await;
        let step = step.map_err(|error| Difference::failed("maintain", &error))?;
        if step.removed > retention.rows_max {
            return Err(Difference::new(format!("one step of {retention:?} removed {} rows", step.removed)));
        }
        removed += step.removed;
        if !step.more {
            return Ok(removed);
        }
    }
    Err(Difference::new(format!("{STEPS_MAX} steps of {retention:?} were not enough")))
}
