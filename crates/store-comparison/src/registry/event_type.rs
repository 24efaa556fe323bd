//! Calls on event types.

use posthaste_store::{EventType, Store as _};

use super::convert::created_to_model;
use super::operation::RegistryOperation;
use super::slot;
use crate::difference::ComparisonResult;
use crate::operation::Handle;
use crate::sequence_run::SequenceRun;

impl SequenceRun<'_> {
    pub(super) async fn run_on_event_types(
        &mut self,
        handle: Handle,
        operation: &RegistryOperation,
    ) -> ComparisonResult<String> {
        let store = self.store(handle);
        let (types, model) = (store.event_types(), self.model.clone());
        let model = model.event_types();
        match operation {
            RegistryOperation::CreateEventType { org, new, answer } => {
                let slot = slot(*answer, |created: &EventType| created.name.as_str().to_owned());
                let store = types.create(&org.id(), new, slot.as_ref()).await;
                let model = model.create(&org.id(), new, slot.as_ref()).await;
                self.compare_calls("created event types", store, model, |run, store, model| {
                    Ok(run.event_type_to_model(store, model))
                })?;
                self.compare_answer(handle.other(), *answer).await?;
            }
            RegistryOperation::PutEventType { org, new } => {
                let store = types.put(&org.id(), new).await;
                let model = model.put(&org.id(), new).await;
                self.compare_calls("put event types", store, model, |run, store, model| {
                    created_to_model(store, model, |store, model| Ok(run.event_type_to_model(store, model)))
                })?;
            }
            RegistryOperation::ChangeEventType { org, name, change } => {
                let store = types.update(&org.id(), name, change).await;
                let model = model.update(&org.id(), name, change).await;
                self.compare_calls("changed event types", store, model, |run, store, model| {
                    Ok(run.event_type_to_model(store, model))
                })?;
            }
            RegistryOperation::ExpungeEventType { org, name } => {
                let store = types.expunge(&org.id(), name).await;
                let model = model.expunge(&org.id(), name).await;
                self.compare_calls("expunged event types", store, model, |_, _, _| Ok(()))?;
            }
            _ => unreachable!("the caller passes operations on event types"),
        }
        Ok(String::new())
    }
}
