//! Operator actions and circuit reports.

use posthaste_domain::{DestinationId, WorkerId};
use posthaste_store::{CircuitReport, EventContent, EventView, OpenCircuitReport, Store as _, StoreError};

use crate::difference::{ComparisonResult, Difference, compare};
use crate::operation::{Actor, CircuitReportSpec, EventChoice, Handle};
use crate::sequence_run::{Counterparts, SequenceRun};

impl SequenceRun<'_> {
    pub(crate) async fn requeue(
        &mut self,
        handle: Handle,
        event: EventChoice,
        actor: Actor,
    ) -> ComparisonResult<String> {
        let id = self.event(event);
        let store = self.store(handle).requeue(&id.store, actor.name().into()).await;
        let model = self.model.requeue(&id.model, actor.name().into()).await;
        self.tally.add(if model.is_ok() { "requeues" } else { "refused requeues" }, 1);
        self.compare_changes(store, model)?;
        self.compare_event(handle.other(), &id).await
    }

    pub(crate) async fn cancel(
        &mut self,
        handle: Handle,
        event: EventChoice,
        actor: Actor,
        reason: Option<&str>,
    ) -> ComparisonResult<String> {
        let id = self.event(event);
        let store = self.store(handle).cancel(&id.store, actor.name().into(), reason).await;
        let model = self.model.cancel(&id.model, actor.name().into(), reason).await;
        self.tally.add(if model.is_ok() { "cancels" } else { "refused cancels" }, 1);
        self.compare_changes(store, model)?;
        self.compare_event(handle.other(), &id).await
    }

    pub(crate) async fn replay(
        &mut self,
        handle: Handle,
        event: EventChoice,
        actor: Actor,
    ) -> ComparisonResult<String> {
        let id = self.event(event);
        let store = self.store(handle).replay(&id.store, actor.name().into()).await;
        let model = self.model.replay(&id.model, actor.name().into()).await;
        self.tally.add(if model.is_ok() { "replays" } else { "refused replays" }, 1);
        if let (Ok(store), Ok(model)) = (&store, &model) {
            self.ids.events.pair(&store.event_id, &model.event_id)?;
            let added = Counterparts { store: store.event_id.clone(), model: model.event_id.clone() };
            self.enqueued.push(added);
        }
        self.compare_changes(store, model)?;
        self.compare_event(handle.other(), &id).await
    }

    pub(crate) async fn view_content(
        &mut self,
        handle: Handle,
        event: EventChoice,
        actor: Actor,
        bytes_max: usize,
    ) -> ComparisonResult<String> {
        let id = self.event(event);
        let store = self.store(handle).event_content(&id.store, actor.name(), bytes_max).await;
        let model = self.model.event_content(&id.model, actor.name(), bytes_max).await;
        self.tally.add(if model.is_ok() { "contents" } else { "refused contents" }, 1);
        match (store, model) {
            (Ok(store), Ok(model)) => {
                self.compare_views(&store.event, &model.event)?;
                let fields = |it: &EventContent| {
                    (it.content_type.clone(), it.traceparent.clone(), it.payload.clone(), it.payload_bytes)
                };
                compare("the content of an event", &fields(&model), &fields(&store))?;
            }
            (store, model) => drop(self.compare_errors(store.err().as_ref(), model.err().as_ref())?),
        }
        self.compare_event(handle.other(), &id).await
    }

    pub(crate) async fn discard(
        &mut self,
        handle: Handle,
        event: EventChoice,
        actor: Actor,
        reason: Option<&str>,
    ) -> ComparisonResult<String> {
        let id = self.event(event);
        let store = self.store(handle).discard(&id.store, actor.name().into(), reason).await;
        let model = self.model.discard(&id.model, actor.name().into(), reason).await;
        self.tally.add(if model.is_ok() { "discards" } else { "refused discards" }, 1);
        match (store, model) {
            (Ok(store), Ok(model)) => {
                let converted = self.audit_to_model(&store, &model);
                compare("the audit of a discard", &model, &converted)?;
            }
            (store, model) => drop(self.compare_errors(store.err().as_ref(), model.err().as_ref())?),
        }
        self.compare_event(handle.other(), &id).await
    }

    fn compare_changes(
        &mut self,
        store: Result<EventView, StoreError>,
        model: Result<EventView, StoreError>,
    ) -> ComparisonResult {
        match (store, model) {
            (Ok(store), Ok(model)) => {
                self.compare_views(&store, &model)?;
                self.returned_views.push(store);
                Ok(())
            }
            (store, model) => self.compare_errors(store.err().as_ref(), model.err().as_ref()).map(drop),
        }
    }

    pub(crate) async fn report_circuits(
        &mut self,
        handle: Handle,
        reports: &[CircuitReportSpec],
    ) -> ComparisonResult<String> {
        let batch = |of: fn(Counterparts<DestinationId>) -> DestinationId| -> Vec<CircuitReport> {
            let report = |report: &CircuitReportSpec| CircuitReport {
                worker: WorkerId::new(report.worker.name()).expect("visible ASCII"),
                destination: of(self.destination(report.destination)),
                open: report.is_open.then(|| OpenCircuitReport {
                    open_for: report.open_for,
                    next_probe_in: report.next_probe_in,
                    last_error: Some(format!("HTTP 503 seen by {}", report.worker.name())),
                    expires_in: report.expires_in,
                }),
            };
            reports.iter().map(report).collect()
        };
        let store = self.store(handle).report_circuits(&batch(|ids| ids.store)).await;
        store.map_err(|error| Difference::failed("report_circuits", &error))?;
        self.model.report_circuits(&batch(|ids| ids.model)).await.expect("the model is always up");
        Ok(String::new())
    }
}
