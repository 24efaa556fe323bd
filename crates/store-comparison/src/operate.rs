//! What operators do, and what workers report.

use posthaste_domain::{DestinationId, WorkerId};
use posthaste_store::{CircuitReport, EventView, Store as _, StoreError};

use crate::difference::{Agreed, Difference};
use crate::operation::{Actor, Event, Handle, Report};
use crate::pair::{Both, Pair};

impl Pair<'_> {
    pub(crate) async fn requeue(&mut self, handle: Handle, event: Event, actor: Actor) -> Agreed<String> {
        let id = self.event(event);
        let store = self.store(handle).requeue(&id.store, actor.name()).await;
        let model = self.model.requeue(&id.model, actor.name()).await;
        self.tally.count(if model.is_ok() { "requeues" } else { "refused requeues" }, 1);
        self.same_change(store, model)?;
        self.examine(handle.other(), &id).await
    }

    pub(crate) async fn cancel(
        &mut self,
        handle: Handle,
        event: Event,
        actor: Actor,
        reason: Option<&str>,
    ) -> Agreed<String> {
        let id = self.event(event);
        let store = self.store(handle).cancel(&id.store, actor.name(), reason).await;
        let model = self.model.cancel(&id.model, actor.name(), reason).await;
        self.tally.count(if model.is_ok() { "cancels" } else { "refused cancels" }, 1);
        self.same_change(store, model)?;
        self.examine(handle.other(), &id).await
    }

    fn same_change(
        &mut self,
        store: Result<EventView, StoreError>,
        model: Result<EventView, StoreError>,
    ) -> Agreed {
        match (store, model) {
            (Ok(store), Ok(model)) => {
                self.same_view(&store, &model)?;
                self.answered.push(store);
                Ok(())
            }
            (store, model) => self.same_failure(store.err().as_ref(), model.err().as_ref()).map(drop),
        }
    }

    pub(crate) async fn report_circuits(&mut self, handle: Handle, reports: &[Report]) -> Agreed<String> {
        let batch = |of: fn(Both<DestinationId>) -> DestinationId| -> Vec<CircuitReport> {
            let report = |report: &Report| CircuitReport {
                worker: WorkerId::new(report.worker.name()).expect("visible ASCII"),
                destination: of(self.destination(report.destination)),
                state: report.state,
                expires_in: report.expires_in,
            };
            reports.iter().map(report).collect()
        };
        let store = self.store(handle).report_circuits(&batch(|both| both.store)).await;
        store.map_err(|error| Difference::failed("report_circuits", &error))?;
        self.model.report_circuits(&batch(|both| both.model)).await.expect("the model is always up");
        Ok(String::new())
    }
}
