//! Everything that the port shows, compared after every step.

use std::collections::BTreeMap;

use posthaste_domain::{DestinationId, EventId};
use posthaste_store::{
    AttemptView, AuditView, DestinationState, EventDetail, EventQuery, EventView, Overview, PageLimit,
    PageRequest, Store, StoreError,
};

use crate::difference::{Agreed, Difference, same};
use crate::moments::near;
use crate::operation::Handle;
use crate::pair::{Both, Pair};

impl Pair<'_> {
    pub(crate) async fn look(&mut self, handle: Handle) -> Agreed {
        let store = self.store(handle);
        self.look_at_events(&*store).await?;
        self.look_at_overview(&*store).await?;
        self.follow_notices(&*store).await?;
        let destinations: Vec<DestinationId> =
            self.model.with_state(|state| state.destinations.keys().copied().collect());
        for model in destinations {
            let store = self.names.destinations.store_of(&model).copied();
            let store = store.expect("the look at its first event has paired the destination");
            self.look_at_destination(handle, &Both { store, model }).await?;
        }
        Ok(())
    }

    /// One event after the other, with its attempts and its audit, through both handles.
    pub(crate) async fn look_closely(&mut self) -> Agreed {
        for event in self.enqueued.clone() {
            for handle in [Handle::First, Handle::Second] {
                self.examine(handle, &event).await?;
            }
        }
        self.look(Handle::First).await
    }

    async fn look_at_events(&mut self, store: &dyn Store) -> Agreed {
        let views = all_events(store).await?;
        let models: BTreeMap<EventId, EventView> = self.model.with_state(|state| {
            state.rows.iter().map(|(key, row)| (row.event_id.clone(), row.view(*key))).collect()
        });
        let mut pairs = Vec::new();
        for view in &views {
            let event_id = self.names.events.model_of(&view.event_id)?;
            let gone = || Difference::new(format!("event {} should be gone", view.event_id));
            pairs.push((view, models.get(&event_id).ok_or_else(gone)?));
        }
        if let Some(missing) = models.keys().find(|id| !pairs.iter().any(|(_, model)| model.event_id == **id))
        {
            return Err(Difference::new(format!(
                "event {:?} is missing",
                self.names.events.store_of(missing)
            )));
        }
        match pairs.iter().min_by_key(|(_, model)| (model.created_at, model.key)) {
            Some((store, model)) => self.moments.align(store.created_at, model.created_at),
            None => self.moments.forget(),
        }
        for (store, model) in pairs {
            self.same_view(store, model)?;
        }
        for answered in std::mem::take(&mut self.answered) {
            let listed = views.iter().find(|view| view.event_id == answered.event_id);
            same("an event as it was answered and as it is listed", &Some(&answered), &listed)?;
        }
        self.views = views;
        Ok(())
    }

    pub(crate) fn same_view(&mut self, store: &EventView, model: &EventView) -> Agreed {
        self.names.events.meet(&store.event_id, &model.event_id)?;
        self.names.keys.meet(&store.key, &model.key)?;
        self.names.messages.meet(&store.message_id, &model.message_id)?;
        self.names.destinations.meet(&store.destination_id, &model.destination_id)?;
        let moments = &self.moments;
        let manual_last = match (&store.manual_last, &model.manual_last) {
            (Some(store), Some(model)) => Some(self.audit_as_model(store, model)),
            (store, _) => store.clone(),
        };
        let told = EventView {
            key: model.key,
            event_id: model.event_id.clone(),
            message_id: model.message_id,
            destination_id: model.destination_id,
            next_attempt_at: moments.as_model_if_any(store.next_attempt_at, model.next_attempt_at),
            lease_until: moments.as_model_if_any(store.lease_until, model.lease_until),
            last_attempted_at: moments.as_model_if_any(store.last_attempted_at, model.last_attempted_at),
            delivered_at: moments.as_model_if_any(store.delivered_at, model.delivered_at),
            manual_last,
            created_at: moments.as_model(store.created_at, model.created_at),
            updated_at: moments.as_model(store.updated_at, model.updated_at),
            ..store.clone()
        };
        same(&format!("event {}", store.event_id), model, &told)
    }

    async fn look_at_overview(&mut self, store: &dyn Store) -> Agreed {
        let store = store.overview().await.map_err(|error| Difference::failed("overview", &error))?;
        let model = self.model.overview().await.expect("the model is always up");
        let age = |store| model.oldest_pending_age.map_or(store, |model| near(store, model));
        let told = Overview { oldest_pending_age: store.oldest_pending_age.map(age), ..store };
        same("the overview", &model, &told)
    }

    pub(crate) async fn look_at_destination(&mut self, handle: Handle, id: &Both<DestinationId>) -> Agreed {
        let store = self.store(handle).destination(id.store).await;
        let model = self.model.destination(id.model).await;
        let told = match (store, &model) {
            (Ok(store), Ok(model)) => Ok(DestinationState {
                id: if store.id == id.store { id.model } else { store.id },
                paused_until: self.moments.as_model_if_any(store.paused_until, model.paused_until),
                failing_since: self.moments.as_model_if_any(store.failing_since, model.failing_since),
                ..store
            }),
            (told, _) => told,
        };
        same("a destination", &model, &told)
    }

    /// One event in full.
    pub(crate) async fn examine(&mut self, handle: Handle, id: &Both<EventId>) -> Agreed<String> {
        let store = self.store(handle).event(&id.store).await;
        let model = self.model.event(&id.model).await;
        match (store, model) {
            (Ok(store), Ok(model)) => {
                self.same_view(&store.event, &model.event)?;
                self.same_audit(&store, &model)?;
                self.same_history(&store, &model)?;
                self.answered.push(store.event);
                Ok(id.store.to_string())
            }
            (store, model) => self.same_failure(store.err().as_ref(), model.err().as_ref()),
        }
    }

    /// At least one of them failed: both must, and alike.
    pub(crate) fn same_failure(
        &self,
        store: Option<&StoreError>,
        model: Option<&StoreError>,
    ) -> Agreed<String> {
        let told = store.map(|error| self.error_as_model(error));
        same("the error", &model, &told.as_ref())?;
        Ok(store.map_or_else(String::new, ToString::to_string))
    }

    fn same_audit(&self, store: &EventDetail, model: &EventDetail) -> Agreed {
        let pairs = store.audit.iter().zip(&model.audit);
        let mut told: Vec<AuditView> =
            pairs.map(|(store, model)| self.audit_as_model(store, model)).collect();
        told.extend(store.audit.iter().skip(model.audit.len()).cloned());
        same(&format!("the audit of {}", store.event.event_id), &model.audit, &told)
    }

    /// What the model has forgotten may still be shown where that is allowed.
    fn same_history(&mut self, store: &EventDetail, model: &EventDetail) -> Agreed {
        let mut shown = Vec::new();
        for attempt in &store.history {
            shown.push(self.names.tokens.model_of(&attempt.token)?);
        }
        let ever = self.attempts.get(&model.event.key).map(Vec::as_slice).unwrap_or_default();
        let may_be_shown = |attempt: &&AttemptView| {
            model.history.contains(attempt)
                || (self.allowed.attempts_linger && shown.contains(&attempt.token))
        };
        let expected: Vec<AttemptView> = ever.iter().filter(may_be_shown).cloned().collect();
        let told: Vec<AttemptView> = store
            .history
            .iter()
            .zip(shown)
            .enumerate()
            .map(|(place, (attempt, token))| {
                let started_at = expected.get(place).map(|expected| expected.started_at);
                let started_at = self.moments.as_model(attempt.started_at, started_at.unwrap_or_default());
                AttemptView { token, started_at, ..attempt.clone() }
            })
            .collect();
        same(&format!("the history of {}", store.event.event_id), &expected, &told)
    }

    fn audit_as_model(&self, store: &AuditView, model: &AuditView) -> AuditView {
        AuditView { at: self.moments.as_model(store.at, model.at), ..store.clone() }
    }

    fn error_as_model(&self, error: &StoreError) -> StoreError {
        let mut error = error.clone();
        if let StoreError::EventNotFound { event_id }
        | StoreError::NotRequeueable { event_id, .. }
        | StoreError::NotCancellable { event_id, .. } = &mut error
            && let Ok(model) = self.names.events.model_of(event_id)
        {
            *event_id = model;
        }
        error
    }
}

/// All pages together, the newest first.
async fn all_events(store: &dyn Store) -> Agreed<Vec<EventView>> {
    let limit = PageLimit::new(200).expect("the most that a page may hold");
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
