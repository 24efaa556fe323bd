//! Bugs of bulk operations: selection, rate, stops and repeated requests.

use std::sync::Arc;

use async_trait::async_trait;
use posthaste_domain::{BulkId, Throttle, Timestamp};
use posthaste_store::{
    Advance, BulkCount, BulkFilter, BulkOperation, BulkOperations, LayeredStore, List, ListRequest,
    NewBulkOperation, OperationState, Store, StoreError, StoreLayer,
};
use posthaste_store_memory::{BulkTable, MemoryStore};

/// Bulk operations with a fault.
struct FaultyBulk {
    memory: MemoryStore,
    fault: BulkFault,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BulkFault {
    /// A count leaves out when the events failed.
    CountIgnoresTimes,
    /// Every request starts an operation, also a repeated one.
    RequestsAreForgotten,
    /// A step acts on the events that failed after the operation was started.
    StepsTakeLaterFailures,
    /// A step begins at the first dead letter.
    CursorsAreForgotten,
    /// A step acts on as many events as it examines.
    StepsIgnoreTheRate,
    /// An operation goes on after it was stopped.
    StopsAreForgotten,
    /// A step leaves no audit row.
    ActionsAreNotAudited,
}

impl BulkFault {
    /// Changes the operations so that the store's own step has the fault.
    fn prepare(self, table: &mut BulkTable) {
        for row in table.operations.values_mut() {
            let running = &mut row.running;
            match self {
                Self::StepsTakeLaterFailures => {
                    running.operation.filter.until = Some(Timestamp::from_secs(4_000_000_000));
                }
                Self::CursorsAreForgotten => running.cursor = 0,
                Self::StepsIgnoreTheRate => {
                    running.operation.rate = Throttle::new(1_000).expect("a valid rate");
                }
                _ => {}
            }
        }
    }

    /// Restores what [`Self::prepare`] has changed.
    fn restore(table: &mut BulkTable, before: &BulkTable) {
        for (id, row) in &mut table.operations {
            let operation = &before.operations[id].running.operation;
            row.running.operation.filter = operation.filter.clone();
            row.running.operation.rate = operation.rate;
        }
    }
}

#[async_trait]
impl BulkOperations for FaultyBulk {
    async fn count(&self, filter: &BulkFilter) -> Result<BulkCount, StoreError> {
        if self.fault == BulkFault::CountIgnoresTimes {
            let filter = BulkFilter { since: None, until: None, ..filter.clone() };
            return self.memory.bulk().count(&filter).await;
        }
        self.memory.bulk().count(filter).await
    }

    async fn start(&self, new: &NewBulkOperation<'_>) -> Result<BulkOperation, StoreError> {
        let key = new.key.filter(|_| self.fault != BulkFault::RequestsAreForgotten);
        self.memory.bulk().start(&NewBulkOperation { key, ..new.clone() }).await
    }

    async fn get(&self, id: BulkId) -> Result<BulkOperation, StoreError> {
        self.memory.bulk().get(id).await
    }

    async fn list(
        &self,
        state: Option<OperationState>,
        request: &ListRequest<BulkId>,
    ) -> Result<List<BulkOperation>, StoreError> {
        self.memory.bulk().list(state, request).await
    }

    async fn stop(&self, id: BulkId, actor: &str) -> Result<BulkOperation, StoreError> {
        let stopped = self.memory.bulk().stop(id, actor).await?;
        if self.fault == BulkFault::StopsAreForgotten {
            self.memory.with_state(|state| {
                let row = state.bulk.operations.get_mut(&id).expect("it was just stopped");
                row.running.operation.state = OperationState::Running;
            });
        }
        Ok(stopped)
    }

    async fn advance(&self, rows_max: usize) -> Result<Advance, StoreError> {
        let (before, audit) = self.memory.with_state(|state| {
            let before = (state.bulk.clone(), state.audit.len());
            self.fault.prepare(&mut state.bulk);
            before
        });
        let advance = self.memory.bulk().advance(rows_max).await;
        self.memory.with_state(|state| {
            BulkFault::restore(&mut state.bulk, &before);
            if self.fault == BulkFault::ActionsAreNotAudited {
                state.audit.truncate(audit);
            }
        });
        advance
    }
}

resource_bug!(count_ignores_times, bulk: BulkOperations, FaultyBulk, BulkFault::CountIgnoresTimes);
resource_bug!(requests_are_forgotten, bulk: BulkOperations, FaultyBulk, BulkFault::RequestsAreForgotten);
resource_bug!(steps_take_later_failures, bulk: BulkOperations, FaultyBulk, BulkFault::StepsTakeLaterFailures);
resource_bug!(cursors_are_forgotten, bulk: BulkOperations, FaultyBulk, BulkFault::CursorsAreForgotten);
resource_bug!(steps_ignore_the_rate, bulk: BulkOperations, FaultyBulk, BulkFault::StepsIgnoreTheRate);
resource_bug!(stops_are_forgotten, bulk: BulkOperations, FaultyBulk, BulkFault::StopsAreForgotten);
resource_bug!(actions_are_not_audited, bulk: BulkOperations, FaultyBulk, BulkFault::ActionsAreNotAudited);
