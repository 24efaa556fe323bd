//! Conversion of the store's values of the registry to the ids and the clock of the model.

use posthaste_domain::EndpointId;
use posthaste_store::{
    Application, AttemptRecord, AttemptView, Created, DestinationKey, DestinationProfile, DisabledEndpoint,
    Endpoint, EndpointMessage, EventType, MessageDestination, MessageView, Operation, Publication,
};

use crate::difference::ComparisonResult;
use crate::sequence_run::SequenceRun;

impl SequenceRun<'_> {
    pub(super) fn application_to_model(
        &mut self,
        store: &Application,
        model: &Application,
    ) -> ComparisonResult<Application> {
        self.align_if_unknown(store.created_at, model.created_at);
        self.ids.applications.pair(&store.id, &model.id)?;
        if !self.applications.iter().any(|(_, id)| *id == model.id) {
            self.applications.push((model.org.clone(), model.id));
        }
        Ok(Application {
            id: model.id,
            created_at: self.clock_offset.to_model(store.created_at, model.created_at),
            updated_at: self.clock_offset.to_model(store.updated_at, model.updated_at),
            ..store.clone()
        })
    }

    pub(super) fn endpoint_to_model(
        &mut self,
        store: &Endpoint,
        model: &Endpoint,
    ) -> ComparisonResult<Endpoint> {
        self.pair_endpoints(store.id, model.id)?;
        Ok(Endpoint {
            id: model.id,
            app: self.ids.applications.model_of(&store.app)?,
            disabled: self.disabled_to_model(store.disabled, model.disabled),
            created_at: self.clock_offset.to_model(store.created_at, model.created_at),
            updated_at: self.clock_offset.to_model(store.updated_at, model.updated_at),
            ..store.clone()
        })
    }

    fn pair_endpoints(&mut self, store: EndpointId, model: EndpointId) -> ComparisonResult {
        self.ids.destinations.pair(&store.0, &model.0)?;
        self.ids.names.insert(store.to_string(), model.to_string());
        Ok(())
    }

    pub(crate) fn disabled_to_model(
        &self,
        store: Option<DisabledEndpoint>,
        model: Option<DisabledEndpoint>,
    ) -> Option<DisabledEndpoint> {
        match (store, model) {
            (Some(store), Some(model)) => {
                Some(DisabledEndpoint { at: self.clock_offset.to_model(store.at, model.at), ..store })
            }
            (store, _) => store,
        }
    }

    pub(super) fn event_type_to_model(&self, store: &EventType, model: &EventType) -> EventType {
        let offset = &self.clock_offset;
        EventType {
            archived_at: offset.optional_to_model(store.archived_at, model.archived_at),
            created_at: offset.to_model(store.created_at, model.created_at),
            updated_at: offset.to_model(store.updated_at, model.updated_at),
            ..store.clone()
        }
    }

    pub(super) fn message_to_model(
        &mut self,
        store: &MessageView,
        model: &MessageView,
    ) -> ComparisonResult<MessageView> {
        self.ids.messages.pair(&store.id, &model.id)?;
        Ok(MessageView {
            id: model.id,
            app: self.ids.applications.model_of(&store.app)?,
            created_at: self.clock_offset.to_model(store.created_at, model.created_at),
            deliver_at: self.clock_offset.optional_to_model(store.deliver_at, model.deliver_at),
            ..store.clone()
        })
    }

    pub(super) fn publication_to_model(
        &mut self,
        store: &Publication,
        model: &Publication,
    ) -> ComparisonResult<Publication> {
        self.align_if_unknown(store.message.created_at, model.message.created_at);
        if self.ids.applications.model_of(&store.message.app).is_err() {
            // The publication has created the application.
            self.ids.applications.pair(&store.message.app, &model.message.app)?;
        }
        Ok(Publication { message: self.message_to_model(&store.message, &model.message)?, ..store.clone() })
    }

    pub(super) fn operation_to_model(
        &mut self,
        store: &Operation,
        model: &Operation,
    ) -> ComparisonResult<Operation> {
        self.ids.operations.pair(&store.id, &model.id)?;
        let offset = &self.clock_offset;
        Ok(Operation {
            id: model.id,
            app: self.ids.applications.model_of(&store.app)?,
            endpoint: EndpointId(self.ids.destinations.model_of(&store.endpoint.0)?),
            since: offset.to_model(store.since, model.since),
            until: offset.to_model(store.until, model.until),
            created_at: offset.to_model(store.created_at, model.created_at),
            updated_at: offset.to_model(store.updated_at, model.updated_at),
            ..store.clone()
        })
    }

    pub(super) fn keys_to_model(
        &self,
        store: &[DestinationKey],
        model: &[DestinationKey],
    ) -> Vec<DestinationKey> {
        let offset = &self.clock_offset;
        let convert = |(index, key): (usize, &DestinationKey)| match model.get(index) {
            None => key.clone(),
            Some(model) => DestinationKey {
                created_at: offset.to_model(key.created_at, model.created_at),
                retires_at: offset.optional_to_model(key.retires_at, model.retires_at),
                ..key.clone()
            },
        };
        store.iter().enumerate().map(convert).collect()
    }

    pub(super) fn profile_to_model(
        &self,
        store: &DestinationProfile,
        model: &DestinationProfile,
    ) -> ComparisonResult<DestinationProfile> {
        Ok(DestinationProfile {
            destination: self.ids.destinations.model_of(&store.destination)?,
            app: store.app.map(|app| self.ids.applications.model_of(&app)).transpose()?,
            keys: self.keys_to_model(&store.keys, &model.keys),
            ..store.clone()
        })
    }

    pub(super) fn message_destination_to_model(
        &mut self,
        store: &MessageDestination,
        model: &MessageDestination,
    ) -> ComparisonResult<MessageDestination> {
        self.compare_views(&store.event, &model.event)?;
        let endpoint = self.endpoint_to_model(&store.endpoint, &model.endpoint)?;
        Ok(MessageDestination { endpoint, event: model.event.clone() })
    }

    pub(super) fn endpoint_message_to_model(
        &mut self,
        store: &EndpointMessage,
        model: &EndpointMessage,
    ) -> ComparisonResult<EndpointMessage> {
        self.compare_views(&store.event, &model.event)?;
        let message = self.message_to_model(&store.message, &model.message)?;
        Ok(EndpointMessage { message, event: model.event.clone() })
    }

    pub(super) fn attempt_to_model(
        &mut self,
        store: &AttemptRecord,
        model: &AttemptRecord,
    ) -> ComparisonResult<AttemptRecord> {
        self.ids.keys.pair(&store.id.event, &model.id.event)?;
        self.ids.tokens.pair(&store.id.token, &model.id.token)?;
        let attempt = AttemptView {
            token: self.ids.tokens.model_of(&store.attempt.token)?,
            started_at: self.clock_offset.to_model(store.attempt.started_at, model.attempt.started_at),
            ..store.attempt.clone()
        };
        Ok(AttemptRecord {
            id: model.id,
            event_id: self.ids.events.model_of(&store.event_id)?,
            message: self.ids.messages.model_of(&store.message)?,
            endpoint: EndpointId(self.ids.destinations.model_of(&store.endpoint.0)?),
            attempt,
            ..store.clone()
        })
    }
}

/// Converts a resource that a call returned, and keeps whether the call created it.
pub(super) fn created_to_model<T>(
    store: &Created<T>,
    model: &Created<T>,
    convert: impl FnOnce(&T, &T) -> ComparisonResult<T>,
) -> ComparisonResult<Created<T>> {
    Ok(Created { value: convert(&store.value, &model.value)?, is_new: store.is_new })
}
