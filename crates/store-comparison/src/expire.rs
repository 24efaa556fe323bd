//! Expiry: whole walks over the pending events.

use std::time::Duration;

use posthaste_domain::EventId;
use posthaste_store::{ExpireRequest, Store};

use crate::difference::{ComparisonResult, Difference, compare};
use crate::operation::Handle;
use crate::sequence_run::SequenceRun;

/// More steps than a sequence has events.
const STEPS_MAX: usize = 1_000;

impl SequenceRun<'_> {
    pub(crate) async fn expire(
        &mut self,
        handle: Handle,
        expire_after: Duration,
        rows_max: usize,
    ) -> ComparisonResult<String> {
        let request = ExpireRequest { expire_after, after: None, rows_max };
        let mut store = Vec::new();
        for event_id in walk(&*self.store(handle), request).await? {
            store.push(self.ids.events.model_of(&event_id)?);
        }
        let mut model = walk(&self.model, request).await?;
        store.sort();
        model.sort();
        self.tally.add("expired events", model.len());
        compare("the expired events", &model, &store)?;
        Ok(format!("{} expired", store.len()))
    }
}

/// Walks over the pending events in steps and returns those that expired.
async fn walk(store: &dyn Store, mut request: ExpireRequest) -> ComparisonResult<Vec<EventId>> {
    let mut expired = Vec::new();
    for _ in 0..STEPS_MAX {
        let step = store.expire(&request).await;
        let step = step.map_err(|error| Difference::failed("expire", &error))?;
        if step.expired.len() > request.rows_max {
            return Err(Difference::new(format!(
                "one step of {request:?} let {} events expire",
                step.expired.len()
            )));
        }
        expired.extend(step.expired);
        match step.next {
            Some(next) => request.after = Some(next),
            None => return Ok(expired),
        }
    }
    Err(Difference::new(format!("{STEPS_MAX} steps of {request:?} were not enough")))
}
