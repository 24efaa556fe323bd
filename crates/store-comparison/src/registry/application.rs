//! Calls on applications.

use posthaste_store::{Application, Created, IfTaken, Store as _};

use super::convert::created_to_model;
use super::operation::RegistryOperation;
use super::slot;
use crate::difference::ComparisonResult;
use crate::operation::Handle;
use crate::sequence_run::{Counterparts, SequenceRun};

impl SequenceRun<'_> {
    pub(super) async fn run_on_applications(
        &mut self,
        handle: Handle,
        operation: &RegistryOperation,
    ) -> ComparisonResult<String> {
        let store = self.store(handle);
        let (apps, model) = (store.applications(), self.model.clone());
        let model = model.applications();
        let changed = match operation {
            RegistryOperation::CreateApplication { org, new, returns_existing, answer } => {
                let if_taken = if *returns_existing { IfTaken::ReturnExisting } else { IfTaken::Refuse };
                let slot = slot(*answer, |created: &Created<Application>| format!("{}", created.is_new));
                let store = apps.create(&org.id(), new, if_taken, slot.as_ref()).await;
                let model = model.create(&org.id(), new, if_taken, slot.as_ref()).await;
                let created =
                    self.compare_calls("created applications", store, model, |run, store, model| {
                        created_to_model(store, model, |store, model| run.application_to_model(store, model))
                    })?;
                self.compare_answer(handle.other(), *answer).await?;
                created.map(value)
            }
            RegistryOperation::PutApplication { app, new } => {
                let scope = self.app(*app);
                let store = apps.put(&scope.org, &scope.app.store, new).await;
                let model = model.put(&scope.org, &scope.app.model, new).await;
                let put = self.compare_calls("put applications", store, model, |run, store, model| {
                    created_to_model(store, model, |store, model| run.application_to_model(store, model))
                })?;
                put.map(value)
            }
            RegistryOperation::ChangeApplication { app, change } => {
                let scope = self.app(*app);
                let store = apps.update(scope.store(), change).await;
                let model = model.update(scope.model(), change).await;
                self.compare_calls("changed applications", store, model, Self::application_to_model)?
            }
            RegistryOperation::DeleteApplication { app, actor } => {
                let scope = self.app(*app);
                let store = apps.delete(scope.store(), actor.name()).await;
                let model = model.delete(scope.model(), actor.name()).await;
                self.compare_calls("deleted applications", store, model, |_, _, _| Ok(()))?;
                None
            }
            _ => unreachable!("the caller passes operations on applications"),
        };
        Ok(changed.map_or_else(String::new, |it| it.store.id.to_string()))
    }
}

fn value<T>(created: Counterparts<Created<T>>) -> Counterparts<T> {
    Counterparts { store: created.store.value, model: created.model.value }
}
