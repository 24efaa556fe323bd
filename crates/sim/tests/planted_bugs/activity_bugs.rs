//! A store and an engine with a known bug each in the reports of activity.

use std::sync::Arc;

use async_trait::async_trait;
use posthaste_domain::DestinationId;
use posthaste_engine::Sender;
use posthaste_sim::PlantedBug;
use posthaste_store::{
    Activity, ActivityReport, History, HistoryRange, LayeredStore, ReceiverActivity, Store, StoreError,
    StoreLayer, WorkerStatus,
};
use posthaste_store_memory::MemoryStore;

/// Counts every report that arrives, also a repeated one.
pub(crate) struct ReportsAreCountedAgain;

impl PlantedBug for ReportsAreCountedAgain {
    fn store(&self, memory: MemoryStore) -> Arc<dyn Store> {
        struct Bug(MemoryStore);

        impl StoreLayer for Bug {
            fn inner(&self) -> &dyn Store {
                &self.0
            }

            fn activity(&self) -> &dyn Activity {
                self
            }
        }

        #[async_trait]
        impl Activity for Bug {
            async fn report(&self, report: &ActivityReport) -> Result<(), StoreError> {
                self.0.with_state(|state| {
                    if let Some(row) = state.activity.workers.get_mut(&report.process) {
                        row.last_sequence = 0;
                    }
                });
                self.0.activity().report(report).await
            }

            async fn history(&self, range: HistoryRange) -> Result<History, StoreError> {
                self.0.activity().history(range).await
            }

            async fn workers(&self) -> Result<Vec<WorkerStatus>, StoreError> {
                self.0.activity().workers().await
            }

            async fn receivers(
                &self,
                destinations: &[DestinationId],
            ) -> Result<Vec<ReceiverActivity>, StoreError> {
                self.0.activity().receivers(destinations).await
            }
        }

        Arc::new(LayeredStore(Bug(memory)))
    }
}

/// Takes a report that got no answer for a confirmed one, and does not repeat it.
pub(crate) struct UnansweredReportsAreForgotten;

impl PlantedBug for UnansweredReportsAreForgotten {
    fn engine(&self, store: Arc<dyn Store>, sender: Arc<dyn Sender>) -> (Arc<dyn Store>, Arc<dyn Sender>) {
        struct Bug(Arc<dyn Store>);

        impl StoreLayer for Bug {
            fn inner(&self) -> &dyn Store {
                &*self.0
            }

            fn activity(&self) -> &dyn Activity {
                self
            }
        }

        #[async_trait]
        impl Activity for Bug {
            async fn report(&self, report: &ActivityReport) -> Result<(), StoreError> {
                let _ = self.0.activity().report(report).await;
                Ok(())
            }

            async fn history(&self, range: HistoryRange) -> Result<History, StoreError> {
                self.0.activity().history(range).await
            }

            async fn workers(&self) -> Result<Vec<WorkerStatus>, StoreError> {
                self.0.activity().workers().await
            }

            async fn receivers(
                &self,
                destinations: &[DestinationId],
            ) -> Result<Vec<ReceiverActivity>, StoreError> {
                self.0.activity().receivers(destinations).await
            }
        }

        (Arc::new(LayeredStore(Bug(store))), sender)
    }
}
