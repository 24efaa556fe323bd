//! Comparison of everything that the port shows, after every step.

use std::collections::BTreeMap;

use posthaste_domain::{DestinationId, EventId, Timestamp};
use posthaste_store::{
    AttemptView, AuditView, EventDetail, EventQuery, EventView, Overview, PageLimit, PageRequest, Store,
    StoreError,
};

use crate::clock_offset::optional_to_model;
use crate::destination::count_to_model;
use crate::difference::{ComparisonResult, Difference, compare};
use crate::operation::Handle;
use crate::sequence_run::{Counterparts, SequenceRun};

impl SequenceRun<'_> {
    /// Compares all events, the new notices, all destinations, all bulk operations and the overview.
    pub(crate) async fn compare_state(&mut self, handle: Handle) -> ComparisonResult {
        let store = self.store(handle);
        self.compare_events(&*store).await?;
        self.compare_new_notices(&*store).await?;
        let destinations: Vec<DestinationId> =
            self.model.with_state(|state| state.destinations.keys().copied().collect());
        for model in destinations {
            let store = self.ids.destinations.store_of(&model).copied();
            let store = store.expect(
                "comparing the destination's first event, or creating the endpoint, has paired its ids",
            );
            self.compare_destination(handle, &Counterparts { store, model }).await?;
        }
        self.compare_all_bulk(handle).await?;
        self.compare_overview(&*self.store(handle)).await
    }

    /// Compares each event with its attempts and audit rows, through both handles.
    pub(crate) async fn compare_details(&mut self) -> ComparisonResult {
        for event in self.enqueued.clone() {
            for handle in [Handle::First, Handle::Second] {
                self.compare_event(handle, &event).await?;
            }
        }
        if self.uses_registry() {
            self.compare_registry(Handle::First).await?;
        }
        self.compare_activity(Handle::First).await?;
        self.compare_state(Handle::First).await
    }

    async fn compare_events(&mut self, store: &dyn Store) -> ComparisonResult {
        self.pair_fan_out_events()?;
        let views = read_all_events(store).await?;
        let models: BTreeMap<EventId, EventView> = self.model.with_state(|state| {
            state.rows.iter().map(|(key, row)| (row.event_id.clone(), row.view(*key))).collect()
        });
        let mut pairs = Vec::new();
        for view in &views {
            let event_id = self.ids.events.model_of(&view.event_id)?;
            let not_removed = || Difference::new(format!("event {} should have been removed", view.event_id));
            pairs.push((view, models.get(&event_id).ok_or_else(not_removed)?));
        }
        if let Some(missing) = models.keys().find(|id| !pairs.iter().any(|(_, model)| model.event_id == **id))
        {
            return Err(Difference::new(format!("event {:?} is missing", self.ids.events.store_of(missing))));
        }
        match pairs.iter().min_by_key(|(_, model)| (model.created_at, model.key)) {
            Some((store, model)) => self.clock_offset.align(store.created_at, model.created_at),
            None if self.uses_registry() => {}
            None => self.clock_offset.reset(),
        }
        for (store, model) in pairs {
            self.compare_views(store, model)?;
        }
        for returned in std::mem::take(&mut self.returned_views) {
            let listed = views.iter().find(|view| view.event_id == returned.event_id);
            compare("an event as a call returned it and as it is listed", &Some(&returned), &listed)?;
        }
        self.views = views;
        Ok(())
    }

    pub(crate) fn compare_views(&mut self, store: &EventView, model: &EventView) -> ComparisonResult {
        self.ids.events.pair(&store.event_id, &model.event_id)?;
        self.ids.keys.pair(&store.key, &model.key)?;
        self.ids.messages.pair(&store.message_id, &model.message_id)?;
        self.ids.destinations.pair(&store.destination_id, &model.destination_id)?;
        let clock_offset = &self.clock_offset;
        let manual_last = match (&store.manual_last, &model.manual_last) {
            (Some(store), Some(model)) => Some(self.audit_to_model(store, model)),
            (store, _) => store.clone(),
        };
        let converted = EventView {
            key: model.key,
            event_id: model.event_id.clone(),
            message_id: model.message_id,
            app: store.app.map(|app| self.ids.applications.model_of(&app)).transpose()?,
            webhook_id: store.webhook_id.as_ref().map(|id| self.ids.name_to_model(id)),
            destination_id: model.destination_id,
            next_attempt_at: clock_offset.optional_to_model(store.next_attempt_at, model.next_attempt_at),
            lease_until: clock_offset.optional_to_model(store.lease_until, model.lease_until),
            last_attempted_at: clock_offset
                .optional_to_model(store.last_attempted_at, model.last_attempted_at),
            delivered_at: clock_offset.optional_to_model(store.delivered_at, model.delivered_at),
            manual_last,
            replay_of: store.replay_of.as_ref().map(|id| self.ids.events.model_of(id)).transpose()?,
            created_at: clock_offset.to_model(store.created_at, model.created_at),
            updated_at: clock_offset.to_model(store.updated_at, model.updated_at),
            ..store.clone()
        };
        compare(&format!("event {}", store.event_id), model, &converted)
    }

    async fn compare_overview(&mut self, store: &dyn Store) -> ComparisonResult {
        let store = store.overview().await.map_err(|error| Difference::failed("overview", &error))?;
        let model = self.model.overview().await.expect("the model is always up");
        let converted = Overview {
            oldest_pending_age: optional_to_model(store.oldest_pending_age, model.oldest_pending_age),
            held: count_to_model(store.held, model.held),
            ..store
        };
        compare("the overview", &model, &converted)
    }

    /// Compares one event with its attempts and audit rows.
    pub(crate) async fn compare_event(
        &mut self,
        handle: Handle,
        id: &Counterparts<EventId>,
    ) -> ComparisonResult<String> {
        let store = self.store(handle).event(&id.store).await;
        let model = self.model.event(&id.model).await;
        match (store, model) {
            (Ok(store), Ok(model)) => {
                self.compare_views(&store.event, &model.event)?;
                self.compare_audits(&store, &model)?;
                self.compare_histories(&store, &model)?;
                self.returned_views.push(store.event);
                Ok(id.store.to_string())
            }
            (store, model) => self.compare_errors(store.err().as_ref(), model.err().as_ref()),
        }
    }

    /// Compares the errors of a call that failed on at least one side. Both must fail with the same error.
    pub(crate) fn compare_errors(
        &self,
        store: Option<&StoreError>,
        model: Option<&StoreError>,
    ) -> ComparisonResult<String> {
        let converted = store.map(|error| self.error_to_model(error, model));
        compare("the error", &model, &converted.as_ref())?;
        Ok(store.map_or_else(String::new, ToString::to_string))
    }

    fn compare_audits(&self, store: &EventDetail, model: &EventDetail) -> ComparisonResult {
        let pairs = store.audit.iter().zip(&model.audit);
        let mut converted: Vec<AuditView> =
            pairs.map(|(store, model)| self.audit_to_model(store, model)).collect();
        converted.extend(store.audit.iter().skip(model.audit.len()).cloned());
        compare(&format!("the audit of {}", store.event.event_id), &model.audit, &converted)
    }

    /// Compares an event's attempts. The store may still show attempts that the model has removed, if that is allowed.
    fn compare_histories(&mut self, store: &EventDetail, model: &EventDetail) -> ComparisonResult {
        let mut shown = Vec::new();
        for attempt in &store.history {
            shown.push(self.ids.tokens.model_of(&attempt.token)?);
        }
        let all_attempts = self.attempts.get(&model.event.key).map(Vec::as_slice).unwrap_or_default();
        let may_be_shown = |attempt: &&AttemptView| {
            model.history.contains(attempt)
                || (self.allowed.late_attempt_removal && shown.contains(&attempt.token))
        };
        let expected: Vec<AttemptView> = all_attempts.iter().filter(may_be_shown).cloned().collect();
        let converted: Vec<AttemptView> = store
            .history
            .iter()
            .zip(shown)
            .enumerate()
            .map(|(index, (attempt, token))| {
                let started_at = expected.get(index).map(|expected| expected.started_at);
                let started_at =
                    self.clock_offset.to_model(attempt.started_at, started_at.unwrap_or_default());
                AttemptView { token, started_at, ..attempt.clone() }
            })
            .collect();
        compare(&format!("the history of {}", store.event.event_id), &expected, &converted)
    }

    pub(crate) fn audit_to_model(&self, store: &AuditView, model: &AuditView) -> AuditView {
        AuditView { at: self.clock_offset.to_model(store.at, model.at), ..store.clone() }
    }

    pub(crate) fn error_to_model(&self, error: &StoreError, model: Option<&StoreError>) -> StoreError {
        let mut error = error.clone();
        if let (
            StoreError::EventDiscarded { discard, .. },
            Some(StoreError::EventDiscarded { discard: model, .. }),
        ) = (&mut error, model)
        {
            *discard = self.audit_to_model(discard, model);
        }
        if let StoreError::EventNotFound { event_id }
        | StoreError::EventDiscarded { event_id, .. }
        | StoreError::NotDiscardable { event_id, .. }
        | StoreError::NotRequeueable { event_id, .. }
        | StoreError::NotReplayable { event_id, .. }
        | StoreError::ContentRemoved { event_id }
        | StoreError::NotCancellable { event_id, .. } = &mut error
            && let Ok(model) = self.ids.events.model_of(event_id)
        {
            *event_id = model;
        }
        self.names_to_model(&mut error, model);
        error
    }

    /// Converts the resource that an error of the registry names.
    fn names_to_model(&self, error: &mut StoreError, model: Option<&StoreError>) {
        match (error, model) {
            (
                StoreError::ApplicationNotFound { app: name }
                | StoreError::EndpointNotFound { endpoint: name }
                | StoreError::MessageNotFound { message: name }
                | StoreError::EndpointDisabled { endpoint: name }
                | StoreError::PayloadExpunged { message: name }
                | StoreError::OperationNotFound { operation: name },
                _,
            ) => *name = self.ids.name_to_model(name),
            (StoreError::DestinationNotFound { id }, _) => {
                *id = self.ids.destinations.model_of(&DestinationId(*id)).map_or(*id, |model| model.0);
            }
            (
                StoreError::TooManyKeys { next_retires_at },
                Some(StoreError::TooManyKeys { next_retires_at: model }),
            ) => *next_retires_at = self.clock_offset.optional_to_model(*next_retires_at, *model),
            // Each store has its own words for what it waits for.
            (StoreError::Busy { reason }, Some(StoreError::Busy { reason: model })) => *reason = model,
            _ => {}
        }
    }

    /// Measures the offset between the clocks by a row that was just created, if it is unknown.
    pub(crate) fn align_if_unknown(&mut self, store: Timestamp, model: Timestamp) {
        if !self.clock_offset.is_known() {
            self.clock_offset.align(store, model);
        }
    }
}

/// Reads all events, newest first, page by page.
async fn read_all_events(store: &dyn Store) -> ComparisonResult<Vec<EventView>> {
    let limit = PageLimit::new(200).expect("200 is the largest page limit");
    let mut request = PageRequest { after: None, limit };
    let mut views: Vec<EventView> = Vec::new();
    loop {
        let page = store.events(&EventQuery::default(), &request).await;
        let page = page.map_err(|error| Difference::failed("events", &error))?;
        views.extend(page.items);
        request.after = page.next;
        if request.after.is_none() {
            break;
        }
    }
    let order: Vec<_> = views.iter().map(|view| (view.created_at, view.key)).collect();
    if order.windows(2).any(|pair| pair[0] <= pair[1]) {
        return Err(Difference::new(format!("events are not listed newest first: {order:?}")));
    }
    Ok(views)
}
