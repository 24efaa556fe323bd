//! Publications, resends, and removal of payloads.

use posthaste_domain::{ApplicationId, EventId, MessageId, MessageRef, Uid};
use posthaste_store::{Publication, PublishRequest, Store as _};

use super::operation::{AppChoice, RegistryOperation};
use super::slot;
use crate::difference::{ComparisonResult, Difference};
use crate::operation::Handle;
use crate::sequence_run::{Counterparts, SequenceRun};

/// A message that a sequence has published.
#[derive(Debug, Clone)]
pub(crate) struct PublishedMessage {
    pub(super) id: Counterparts<MessageId>,
    /// The model's id of its application.
    pub(super) app: ApplicationId,
    pub(super) uid: Option<Uid>,
}

impl SequenceRun<'_> {
    pub(super) async fn run_on_messages(
        &mut self,
        handle: Handle,
        operation: &RegistryOperation,
    ) -> ComparisonResult<String> {
        match operation {
            RegistryOperation::Publish { .. } => self.publish(handle, operation).await,
            RegistryOperation::ExpungeMessage { message, actor } => {
                let (scope, message) = self.message(*message);
                let store = self.store(handle);
                let store = store.messages().expunge(scope.store(), &message.store, actor.name()).await;
                let model = self.model.messages().expunge(scope.model(), &message.model, actor.name()).await;
                self.compare_calls("expunged messages", store, model, |_, _, _| Ok(()))?;
                self.compare_message(handle.other(), &scope, &message).await
            }
            RegistryOperation::Resend { message, endpoint, actor, answer } => {
                let (scope, message) = self.message(*message);
                let endpoint = self.endpoint_of_app(&scope, *endpoint);
                let slot = slot(*answer, |_: &EventId| "resent".to_owned());
                let (store, actor) = (self.store(handle), actor.name());
                let messages = store.messages();
                let store = messages
                    .resend(scope.store(), &message.store, &endpoint.store, actor, slot.as_ref())
                    .await;
                let messages = self.model.messages();
                let model = messages
                    .resend(scope.model(), &message.model, &endpoint.model, actor, slot.as_ref())
                    .await;
                self.pair_fan_out_events()?;
                let resent = self
                    .compare_calls("resends", store, model, |run, store, _| run.ids.events.model_of(store))?;
                self.compare_answer(handle.other(), *answer).await?;
                Ok(resent.map_or_else(String::new, |resent| resent.store.to_string()))
            }
            _ => unreachable!("the caller passes operations on messages"),
        }
    }

    async fn publish(&mut self, handle: Handle, operation: &RegistryOperation) -> ComparisonResult<String> {
        let RegistryOperation::Publish { app, message, create_app, only_endpoint, stored_by, answer } =
            operation
        else {
            unreachable!("the caller passes publications");
        };
        let scope = self.app(*app);
        let only = only_endpoint.map(|index| self.endpoint_of_app(&scope, index));
        let create_app = create_app.as_ref().filter(|_| matches!(app, AppChoice::Uid(_)));
        let model = PublishRequest {
            create_app: create_app.map(|new| (**new).clone()),
            only_endpoint: only.as_ref().map(|only| only.model.clone()),
            stored_by: stored_by.map(str::to_owned),
            answer: slot(*answer, |published: &Publication| format!("{} events", published.event_count)),
            ..PublishRequest::new(scope.org.clone(), scope.app.model.clone(), (**message).clone())
        };
        let store = PublishRequest {
            app: scope.app.store.clone(),
            only_endpoint: only.map(|only| only.store),
            ..model.clone()
        };
        let store = self.store(handle).messages().publish(&store).await;
        let model = self.model.messages().publish(&model).await;
        let published = self.compare_calls("publications", store, model, Self::publication_to_model)?;
        self.compare_answer(handle.other(), *answer).await?;
        let Some(Counterparts { store, model }) = published else { return Ok(String::new()) };
        self.tally.add("fan-out events", usize::try_from(model.event_count).unwrap_or(usize::MAX));
        let uid = model.message.uid.clone();
        let id = Counterparts { store: store.message.id, model: model.message.id };
        self.published.push(PublishedMessage { id, app: model.message.app, uid });
        if !self.applications.iter().any(|(_, id)| *id == model.message.app) {
            self.applications.push((scope.org, model.message.app));
        }
        Ok(format!("{} to {} endpoints", store.message.id, store.event_count))
    }

    async fn compare_message(
        &mut self,
        handle: Handle,
        scope: &super::refs::Scope,
        message: &Counterparts<MessageRef>,
    ) -> ComparisonResult<String> {
        let store = self.store(handle).messages().get(scope.store(), &message.store, true).await;
        let model = self.model.messages().get(scope.model(), &message.model, true).await;
        self.compare_calls("messages read", store, model, Self::message_to_model)?;
        Ok(String::new())
    }

    /// Pairs the ids of new fan-out events: the id of an event derives from its message, its endpoint and its run.
    pub(crate) fn pair_fan_out_events(&mut self) -> ComparisonResult {
        let new: Vec<(EventId, MessageId, posthaste_domain::DestinationId)> =
            self.model.with_state(|state| {
                let fan_out = state.rows.values().filter(|row| row.message_key.is_some());
                let new = fan_out.filter(|row| self.ids.events.store_of(&row.event_id).is_none());
                new.map(|row| (row.event_id.clone(), row.message_id, row.destination_id)).collect()
            });
        for (model, message, destination) in new {
            let first = EventId::of_fan_out(message, destination);
            let run = model.as_str().strip_prefix(first.as_str()).expect("the id of a run extends the first");
            let unknown = |what: &str| Difference::new(format!("the store has no {what} of event {model}"));
            let message = self.ids.messages.store_of(&message).ok_or_else(|| unknown("message"))?;
            let destination =
                self.ids.destinations.store_of(&destination).ok_or_else(|| unknown("endpoint"))?;
            let first = EventId::of_fan_out(*message, *destination);
            let store = EventId::from_stored(format!("{first}{run}"));
            self.ids.events.pair(&store, &model)?;
            self.enqueued.push(Counterparts { store, model });
        }
        Ok(())
    }
}
