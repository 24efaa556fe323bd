//! Background operations and their steps.

use posthaste_store::{Advance, NewOperation, Operation, OperationState, Store as _};

use super::operation::RegistryOperation;
use super::slot;
use crate::clock_offset::optional_to_model;
use crate::difference::ComparisonResult;
use crate::durations::AFTER_START;
use crate::operation::Handle;
use crate::sequence_run::SequenceRun;

impl SequenceRun<'_> {
    pub(super) async fn run_on_operations(
        &mut self,
        handle: Handle,
        operation: &RegistryOperation,
    ) -> ComparisonResult<String> {
        let store = self.store(handle);
        let (operations, model) = (store.operations(), self.model.clone());
        let model = model.operations();
        match operation {
            RegistryOperation::StartOperation { endpoint, kind, range, rate, actor, answer } => {
                let (scope, endpoint) = self.endpoint(*endpoint);
                let slot = slot(*answer, |started: &Operation| started.kind.as_str().to_owned());
                let new = |endpoint| NewOperation {
                    kind: *kind,
                    endpoint,
                    range: *range,
                    rate: *rate,
                    actor: actor.name(),
                };
                let store = operations.start(scope.store(), &new(&endpoint.store), slot.as_ref()).await;
                let model = model.start(scope.model(), &new(&endpoint.model), slot.as_ref()).await;
                self.compare_calls("started operations", store, model, Self::operation_to_model)?;
                self.compare_answer(handle.other(), *answer).await?;
                // Messages published later in the model's same instant would be within the period of the model alone.
                self.advance(AFTER_START).await?;
            }
            RegistryOperation::AdvanceOperations { rows_max } => {
                if self.is_a_rate_uncertain(*rows_max) {
                    return Ok("skipped, because a rate is spent".to_owned());
                }
                let store = operations.advance(*rows_max).await;
                let model = model.advance(*rows_max).await;
                let step = self.compare_calls("steps of operations", store, model, |_, store, model| {
                    Ok(Advance { next_in: optional_to_model(store.next_in, model.next_in), ..*store })
                })?;
                let done = step.map_or(0, |step| step.model.done);
                self.tally.add("events of operations", done);
                return Ok(format!("{done} done"));
            }
            RegistryOperation::StopOperation(index) => {
                let ids: Vec<_> =
                    self.model.with_state(|state| state.registry.operations.keys().copied().collect());
                let Some(id) = index.pick(&ids) else { return Ok(String::new()) };
                let Some(store_id) = self.ids.operations.store_of(id).copied() else {
                    return Ok(String::new());
                };
                let store = operations.stop(store_id).await;
                let model = model.stop(*id).await;
                self.compare_calls("stopped operations", store, model, Self::operation_to_model)?;
            }
            _ => unreachable!("the caller passes background operations"),
        }
        Ok(String::new())
    }

    /// Returns whether a step may be limited by a rate of which a part is spent. The store's clock may have refilled it further
    /// than the model's.
    fn is_a_rate_uncertain(&self, rows_max: usize) -> bool {
        let now = self.now();
        self.model.with_state(|state| {
            let running = state.registry.operations.values();
            let mut running = running.filter(|row| row.operation.state == OperationState::Running);
            running.any(|row| {
                let is_spent = row.spent_until.is_some_and(|until| until > now);
                is_spent && row.operation.rate.available(row.spent_until, now) < rows_max
            })
        })
    }
}
