//! Calls on endpoints.

use posthaste_domain::Timestamp;
use posthaste_store::{Endpoint, NewSecrets, Store as _};

use super::convert::created_to_model;
use super::keys::{new_key, sealed};
use super::operation::RegistryOperation;
use super::slot;
use crate::difference::ComparisonResult;
use crate::operation::Handle;
use crate::sequence_run::{Counterparts, SequenceRun};

impl SequenceRun<'_> {
    pub(super) async fn run_on_endpoints(
        &mut self,
        handle: Handle,
        operation: &RegistryOperation,
    ) -> ComparisonResult<String> {
        let store = self.store(handle);
        let (endpoints, model) = (store.endpoints(), self.model.clone());
        let model = model.endpoints();
        let changed: Option<Endpoint> = match operation {
            RegistryOperation::CreateEndpoint { app, new, has_headers, answer } => {
                let scope = self.app(*app);
                let secrets = NewSecrets { key: new_key(), headers: has_headers.then(sealed) };
                let slot = slot(*answer, |created: &Endpoint| created.url.as_str().to_owned());
                let store = endpoints.create(scope.store(), new, &secrets, slot.as_ref()).await;
                let model = model.create(scope.model(), new, &secrets, slot.as_ref()).await;
                let created =
                    self.compare_calls("created endpoints", store, model, Self::endpoint_to_model)?;
                self.compare_answer(handle.other(), *answer).await?;
                created.map(|created| created.store)
            }
            RegistryOperation::PutEndpoint { endpoint, new, actor } => {
                let (scope, endpoint) = self.endpoint(*endpoint);
                let secrets = NewSecrets { key: new_key(), headers: None };
                let store = endpoints.put(scope.store(), &endpoint.store, new, &secrets, actor.name()).await;
                let model = model.put(scope.model(), &endpoint.model, new, &secrets, actor.name()).await;
                let put = self.compare_calls("put endpoints", store, model, |run, store, model| {
                    created_to_model(store, model, |store, model| run.endpoint_to_model(store, model))
                })?;
                put.map(|put| put.store.value)
            }
            RegistryOperation::ChangeEndpoint { endpoint, change, actor } => {
                let (scope, endpoint) = self.endpoint(*endpoint);
                let store = endpoints.update(scope.store(), &endpoint.store, change, actor.name()).await;
                let model = model.update(scope.model(), &endpoint.model, change, actor.name()).await;
                let changed =
                    self.compare_calls("changed endpoints", store, model, Self::endpoint_to_model)?;
                changed.map(|changed| changed.store)
            }
            RegistryOperation::DeleteEndpoint { endpoint, actor } => {
                let (scope, endpoint) = self.endpoint(*endpoint);
                let store = endpoints.delete(scope.store(), &endpoint.store, actor.name()).await;
                let model = model.delete(scope.model(), &endpoint.model, actor.name()).await;
                self.compare_calls("deleted endpoints", store, model, |_, _, _| Ok(()))?;
                None
            }
            RegistryOperation::CountEvents { endpoint, since_ago, until_ago } => {
                let (scope, endpoint) = self.endpoint(*endpoint);
                let (since, until) = (self.time_ago(*since_ago), self.time_ago(*until_ago));
                let store = endpoints.stats(scope.store(), &endpoint.store, since.store, until.store).await;
                let model = model.stats(scope.model(), &endpoint.model, since.model, until.model).await;
                self.compare_calls("counts of events", store, model, |_, store, _| Ok(*store))?;
                None
            }
            _ => unreachable!("the caller passes operations on endpoints"),
        };
        Ok(changed.map_or_else(String::new, |endpoint| endpoint.id.to_string()))
    }

    /// Returns a time in the past on both clocks; none if the offset between them is unknown.
    pub(crate) fn time_ago(&self, ago: Option<std::time::Duration>) -> Counterparts<Option<Timestamp>> {
        let model = ago.map(|ago| self.now().before(ago));
        let store = model.and_then(|model| self.clock_offset.to_store(model));
        Counterparts { store, model: model.filter(|_| store.is_some()) }
    }
}
