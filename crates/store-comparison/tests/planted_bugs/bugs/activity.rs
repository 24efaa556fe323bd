//! Bugs of activity: repeated reports, buckets, samples and the list of workers.

use std::sync::Arc;

use async_trait::async_trait;
use posthaste_domain::DestinationId;
use posthaste_store::{
    Activity, ActivityReport, History, HistoryRange, LayeredStore, ReceiverActivity, Resolution, Store,
    StoreError, StoreLayer, WorkerStatus,
};
use posthaste_store_memory::MemoryStore;

/// Activity with a fault.
struct FaultyActivity {
    memory: MemoryStore,
    fault: ActivityFault,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ActivityFault {
    /// A repeated report is counted again.
    RepetitionsCount,
    /// A report is not added to the bucket of its minute.
    MinutesAreLeftOut,
    /// A bucket shows how many events were pending at its first report.
    FirstSampleStays,
    /// The durations of a report replace those of the bucket.
    LatencyIsReplaced,
    /// A worker that has stopped stays listed.
    StoppedWorkersStay,
}

#[async_trait]
impl Activity for FaultyActivity {
    async fn report(&self, report: &ActivityReport) -> Result<(), StoreError> {
        let mut report = report.clone();
        let buckets = self.memory.with_state(|state| {
            if self.fault == ActivityFault::RepetitionsCount
                && let Some(row) = state.activity.workers.get_mut(&report.process)
            {
                row.last_sequence = 0;
            }
            state.activity.buckets.clone()
        });
        if self.fault == ActivityFault::StoppedWorkersStay {
            report.is_last = false;
        }
        self.memory.activity().report(&report).await?;
        self.memory.with_state(|state| {
            for (key, bucket) in &mut state.activity.buckets {
                let before = buckets.get(key);
                match (self.fault, before) {
                    (ActivityFault::MinutesAreLeftOut, _) if key.0 == Resolution::Minute => {
                        bucket.counts = before.map(|before| before.counts).unwrap_or_default();
                    }
                    (ActivityFault::FirstSampleStays, Some(before)) => bucket.pending = before.pending,
                    (ActivityFault::LatencyIsReplaced, Some(before)) if before != bucket => {
                        bucket.counts.latency = report.counts.latency;
                    }
                    _ => {}
                }
            }
        });
        Ok(())
    }

    async fn history(&self, range: HistoryRange) -> Result<History, StoreError> {
        self.memory.activity().history(range).await
    }

    async fn workers(&self) -> Result<Vec<WorkerStatus>, StoreError> {
        self.memory.activity().workers().await
    }

    async fn receivers(&self, destinations: &[DestinationId]) -> Result<Vec<ReceiverActivity>, StoreError> {
        self.memory.activity().receivers(destinations).await
    }
}

resource_bug!(repetitions_count, activity: Activity, FaultyActivity, ActivityFault::RepetitionsCount);
resource_bug!(minutes_are_left_out, activity: Activity, FaultyActivity, ActivityFault::MinutesAreLeftOut);
resource_bug!(first_sample_stays, activity: Activity, FaultyActivity, ActivityFault::FirstSampleStays);
resource_bug!(latency_is_replaced, activity: Activity, FaultyActivity, ActivityFault::LatencyIsReplaced);
resource_bug!(stopped_workers_stay, activity: Activity, FaultyActivity, ActivityFault::StoppedWorkersStay);
