//! Reports of activity as a process makes them: with the faults of every other store call, and sometimes delivered twice.

use async_trait::async_trait;
use posthaste_store::{ActivityReport, StoreError};

use super::{Call, FaultyStore};
use crate::fault::Fault;
use crate::registry_layer::ActivityLayer;

/// Probability, in per mille, that an earlier report arrives again before the next one.
const REPEATED_PER_MILLE: u64 = 20;

#[async_trait]
impl ActivityLayer for FaultyStore {
    async fn report(&self, report: &ActivityReport) -> Result<(), StoreError> {
        // A worker that restarts under the same id is another process.
        let report = ActivityReport { process: self.process.start_id(), ..report.clone() };
        let earlier = self.process.repeatable_report();
        self.world.checker.check_report(&self.process, &report);
        if let Some(earlier) = earlier
            && self.world.fault_occurs(REPEATED_PER_MILLE)
        {
            self.world.count(Fault::ReportRepeated);
            // The network delivers the request again. No caller waits for the answer.
            let _ = self.inner.activity().report(&earlier).await;
        }
        self.call(Call::Report, async { self.inner.activity().report(&report).await }).await?;
        self.process.record_confirmed_report();
        Ok(())
    }
}
