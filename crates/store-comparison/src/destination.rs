//! Comparison of destinations, and of operators' actions on them.

use std::collections::BTreeSet;

use posthaste_domain::{DeliveryStatus, DestinationId};
use posthaste_store::{
    DestinationAudit, DestinationDetail, DestinationState, DestinationStatus, DestinationView, OpenCircuit,
    OperatorPause, PageLimit, PageRequest, PauseRequest, PendingCount, ProbeResponse, ReceiverPause,
    Store as _, StoreError,
};

use crate::clock_offset::optional_to_model;
use crate::difference::{ComparisonResult, Difference, compare};
use crate::operation::{Actor, DestinationChoice, Handle};
use crate::sequence_run::{Counterparts, SequenceRun};

/// Converts a count of the store: ages that are equal within the tolerance become the model's.
pub(crate) fn count_to_model(store: PendingCount, model: PendingCount) -> PendingCount {
    PendingCount { oldest_age: optional_to_model(store.oldest_age, model.oldest_age), ..store }
}

impl SequenceRun<'_> {
    pub(crate) async fn pause_destination(
        &mut self,
        handle: Handle,
        destination: DestinationChoice,
        pause: &PauseRequest,
    ) -> ComparisonResult<String> {
        let id = self.destination(destination);
        let store = self.store(handle).pause_destination(id.store, pause).await;
        let model = self.model.pause_destination(id.model, pause).await;
        self.tally.add("pauses", usize::from(model.is_ok()));
        self.compare_statuses(&id, store, &model)
    }

    pub(crate) async fn resume_destination(
        &mut self,
        handle: Handle,
        destination: DestinationChoice,
        actor: Actor,
    ) -> ComparisonResult<String> {
        let id = self.destination(destination);
        let store = self.store(handle).resume_destination(id.store, actor.name()).await;
        let model = self.model.resume_destination(id.model, actor.name()).await;
        self.tally.add("resumes", usize::from(model.is_ok()));
        self.compare_statuses(&id, store, &model)
    }

    pub(crate) async fn probe_destination(
        &mut self,
        handle: Handle,
        destination: DestinationChoice,
        actor: Actor,
    ) -> ComparisonResult<String> {
        let id = self.destination(destination);
        let store = self.store(handle).probe_destination(id.store, actor.name()).await;
        let model = self.model.probe_destination(id.model, actor.name()).await;
        let refusal = |probed: &Result<ProbeResponse, StoreError>| probed.as_ref().ok().map(|it| it.refusal);
        compare("why no probe is sent", &refusal(&model), &refusal(&store))?;
        self.tally.add("probes", usize::from(refusal(&model) == Some(None)));
        self.compare_statuses(&id, store.map(|it| it.status), &model.map(|it| it.status))
    }

    fn compare_statuses(
        &self,
        id: &Counterparts<DestinationId>,
        store: Result<DestinationStatus, StoreError>,
        model: &Result<DestinationStatus, StoreError>,
    ) -> ComparisonResult<String> {
        let converted = match (store, model) {
            (Ok(store), Ok(model)) => Ok(self.status_to_model(id, store, model)),
            (store, _) => store.map_err(|error| self.error_to_model(&error, model.as_ref().err())),
        };
        compare("the status of a destination", model, &converted)?;
        Ok(String::new())
    }

    /// Compares a destination, the events that wait for it, and its audit rows.
    pub(crate) async fn compare_destination(
        &mut self,
        handle: Handle,
        id: &Counterparts<DestinationId>,
    ) -> ComparisonResult {
        let store = self.store(handle).destination(id.store).await;
        let model = self.model.destination(id.model).await;
        let converted = match (store, &model) {
            (Ok(store), Ok(model)) => Ok(DestinationDetail {
                destination: self.view_to_model(id, store.destination, &model.destination),
                audit: self.audit_of_destination_to_model(store.audit, &model.audit),
            }),
            (store, _) => store.map_err(|error| self.error_to_model(&error, model.as_ref().err())),
        };
        compare("a destination", &model, &converted)?;
        let store = self.store(handle).destination_status(id.store).await;
        let model = self.model.destination_status(id.model).await;
        self.compare_statuses(id, store, &model).map(drop)
    }

    /// Compares all pages of a list of destinations. Ids of the two stores may be assigned in different orders.
    pub(crate) async fn compare_destinations(
        &mut self,
        handle: Handle,
        state: Option<DestinationState>,
        limit: i64,
    ) -> ComparisonResult<String> {
        let mut page = PageRequest { after: None, limit: PageLimit::new(limit).expect("a valid limit") };
        let mut listed = Vec::new();
        loop {
            let found = self.store(handle).destinations(state, &page).await;
            let found = found.map_err(|error| Difference::failed("destinations", &error))?;
            listed.extend(found.items);
            page.after = found.next;
            if page.after.is_none() {
                break;
            }
        }
        let ids: Vec<DestinationId> = listed.iter().map(|view| view.status.id).collect();
        if ids.windows(2).any(|pair| pair[0] >= pair[1]) {
            return Err(Difference::new(format!("destinations are not listed by id: {ids:?}")));
        }
        let mut converted = BTreeSet::new();
        for id in ids {
            converted.insert(self.ids.destinations.model_of(&id)?);
        }
        let all = PageRequest { after: None, limit: PageLimit::new(200).expect("a valid limit") };
        let model = self.model.destinations(state, &all).await.expect("the model is always up").items;
        let expected: BTreeSet<DestinationId> = model.iter().map(|view| view.status.id).collect();
        compare("the listed destinations", &expected, &converted)?;
        for view in listed {
            let id = self.ids.destinations.model_of(&view.status.id)?;
            let id = Counterparts { store: view.status.id, model: id };
            let model = model.iter().find(|model| model.status.id == id.model).expect("it is listed");
            compare("a listed destination", model, &self.view_to_model(&id, view, model))?;
        }
        Ok(String::new())
    }

    fn view_to_model(
        &self,
        id: &Counterparts<DestinationId>,
        store: DestinationView,
        model: &DestinationView,
    ) -> DestinationView {
        // Retries that the model schedules for the same time are due one after the other in the store.
        let may_be_last = |error: &Option<String>| {
            self.model.with_state(|state| {
                state.rows.values().any(|row| {
                    row.destination_id == id.model
                        && row.status == DeliveryStatus::Pending
                        && row.lease.is_none()
                        && row.last_error == *error
                })
            })
        };
        let is_ambiguous = model.last_error.is_some() && may_be_last(&store.last_error);
        DestinationView {
            pending: count_to_model(store.pending, model.pending),
            last_error: if is_ambiguous { model.last_error.clone() } else { store.last_error },
            status: self.status_to_model(id, store.status, &model.status),
            in_flight: store.in_flight,
        }
    }

    fn status_to_model(
        &self,
        id: &Counterparts<DestinationId>,
        store: DestinationStatus,
        model: &DestinationStatus,
    ) -> DestinationStatus {
        let offset = &self.clock_offset;
        let operator_pause = match (store.operator_pause, &model.operator_pause) {
            (Some(store), Some(model)) => Some(OperatorPause {
                at: offset.to_model(store.at, model.at),
                until: offset.optional_to_model(store.until, model.until),
                ..store
            }),
            (store, _) => store,
        };
        let receiver_pause = match (store.receiver_pause, &model.receiver_pause) {
            (Some(store), Some(model)) => Some(ReceiverPause {
                at: offset.to_model(store.at, model.at),
                until: offset.to_model(store.until, model.until),
            }),
            (store, _) => store,
        };
        let circuit = match (store.circuit, &model.circuit) {
            (Some(store), Some(model)) => Some(OpenCircuit {
                since: offset.to_model(store.since, model.since),
                next_probe_at: offset.to_model(store.next_probe_at, model.next_probe_at),
                ..store
            }),
            (store, _) => store,
        };
        DestinationStatus {
            id: if store.id == id.store { id.model } else { store.id },
            url: store.url,
            app: store.app.map(|app| self.ids.applications.model_of(&app).unwrap_or(app)),
            disabled: self.disabled_to_model(store.disabled, model.disabled),
            operator_pause,
            receiver_pause,
            circuit,
            failing_since: offset.optional_to_model(store.failing_since, model.failing_since),
        }
    }

    fn audit_of_destination_to_model(
        &self,
        store: Vec<DestinationAudit>,
        model: &[DestinationAudit],
    ) -> Vec<DestinationAudit> {
        let convert = |(index, entry): (usize, DestinationAudit)| match model.get(index) {
            None => entry,
            Some(model) => DestinationAudit {
                at: self.clock_offset.to_model(entry.at, model.at),
                until: self.clock_offset.optional_to_model(entry.until, model.until),
                ..entry
            },
        };
        store.into_iter().enumerate().map(convert).collect()
    }
}
