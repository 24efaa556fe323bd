//! Comparison of everything that the port shows of the registry.

use posthaste_domain::{ApplicationId, ApplicationRef, DestinationId, OrgId};
use posthaste_store::{AppScope, DestinationProfile, MessageFilter, Store};

use super::list::whole;
use super::operation::Org;
use crate::difference::{ComparisonResult, Difference, compare};
use crate::operation::Handle;
use crate::sequence_run::SequenceRun;

impl SequenceRun<'_> {
    /// Compares all applications with their endpoints and messages, all event types, operations and profiles.
    pub(crate) async fn compare_registry(&mut self, handle: Handle) -> ComparisonResult {
        let (store, model) = (self.store(handle), self.model.clone());
        let mut orgs = Org::ALL.map(Org::id).to_vec();
        orgs.retain(|org| self.is_used(org));
        for org in orgs {
            let read = store.applications().list(&org, &whole()).await;
            let expected = model.applications().list(&org, &whole()).await;
            self.compare_lists("the applications", read, expected, Self::application_to_model)?;
            let read = store.event_types().list(&org, true, &whole()).await;
            let expected = model.event_types().list(&org, true, &whole()).await;
            self.compare_lists("the event types", read, expected, |run, store, model| {
                Ok(run.event_type_to_model(store, model))
            })?;
        }
        let read = store.operations().list(None, &whole()).await;
        let expected = model.operations().list(None, &whole()).await;
        self.compare_lists("the operations", read, expected, Self::operation_to_model)?;
        for (org, app) in self.applications.clone() {
            let is_live = |state: &mut posthaste_store_memory::State| {
                state.registry.applications.get(&app).is_some_and(|row| row.deleted_at.is_none())
            };
            if model.with_state(is_live) {
                self.compare_application(&*store, &org, app).await?;
            }
        }
        self.compare_profiles(&*store).await
    }

    /// Returns whether the model has applications or event types of an organisation.
    fn is_used(&self, org: &OrgId) -> bool {
        self.model.with_state(|state| {
            let registry = &state.registry;
            registry.applications.values().any(|row| row.application.org == *org)
                || registry.event_types.keys().any(|(owner, _)| owner == org)
        })
    }

    /// Compares the endpoints and the messages of an application.
    async fn compare_application(
        &mut self,
        store: &dyn Store,
        org: &OrgId,
        app: ApplicationId,
    ) -> ComparisonResult {
        let store_app = self.ids.applications.store_of(&app).copied();
        let store_app = ApplicationRef::Id(store_app.expect("comparing the application has paired its ids"));
        let model_app = ApplicationRef::Id(app);
        let (store_scope, model_scope) =
            (AppScope { org, app: &store_app }, AppScope { org, app: &model_app });
        let model = self.model.clone();
        let read = store.endpoints().list(store_scope, &whole()).await;
        let expected = model.endpoints().list(model_scope, &whole()).await;
        self.compare_lists("the endpoints", read, expected, Self::endpoint_to_model)?;
        let filter = MessageFilter::default();
        let read = store.messages().list(store_scope, &filter, &whole(), true).await;
        let expected = model.messages().list(model_scope, &filter, &whole(), true).await;
        self.compare_lists("the messages", read, expected, Self::message_to_model)?;
        Ok(())
    }

    /// Compares the keys and headers that workers use, of all destinations that are not deleted endpoints.
    async fn compare_profiles(&mut self, store: &dyn Store) -> ComparisonResult {
        let models: Vec<DestinationId> = self.model.with_state(|state| {
            let is_deleted = |it: &posthaste_store_memory::Destination| {
                it.endpoint.as_ref().is_some_and(|endpoint| endpoint.deleted_at.is_some())
            };
            state.destinations.iter().filter(|(_, it)| !is_deleted(it)).map(|(id, _)| *id).collect()
        });
        let stores: Vec<DestinationId> =
            models.iter().filter_map(|model| self.ids.destinations.store_of(model).copied()).collect();
        let read = store.endpoints().profiles(&stores).await;
        let mut read = read.map_err(|error| Difference::failed("profiles", &error))?;
        let expected = self.model.endpoints().profiles(&models).await.expect("the model is always up");
        read.sort_by_key(|profile| self.ids.destinations.model_of(&profile.destination).ok());
        compare("the number of profiles", &expected.len(), &read.len())?;
        for (store, model) in read.iter().zip(&expected) {
            let converted: DestinationProfile = self.profile_to_model(store, model)?;
            compare("a profile", model, &converted)?;
        }
        Ok(())
    }
}
