//! The registry: applications, endpoints, event types, messages, keys and background operations.
//!
//! `operation.rs` has the calls as plain data, and `generate.rs` generates them. A file for each resource runs its calls on both
//! stores. `convert.rs` converts the store's values to the model's ids and clock, and `compare_state.rs` compares all of the
//! registry that the port shows.

mod application;
mod background;
mod compare_state;
mod convert;
mod endpoint;
mod event_type;
mod generate;
mod generate_choice;
mod generate_endpoint;
mod generate_list;
mod keys;
mod list;
mod message;
mod operation;
mod refs;

use std::fmt::Debug;
use std::sync::Arc;

use bytes::Bytes;
use posthaste_store::{Answer, AnswerKey, AnswerSlot, Store as _, StoreError};

use crate::difference::{ComparisonResult, Difference, compare};
use crate::operation::Handle;
use crate::sequence_run::{Counterparts, SequenceRun};

pub(crate) use generate::{registry_calls, setup};
pub(crate) use generate_choice::EVENT_TYPES;
pub(crate) use generate_list::from;
pub(crate) use list::{expected_page, page_request, whole};
pub(crate) use message::PublishedMessage;
pub(crate) use operation::{FromSpec, RegistryOperation};

use operation::AnswerSpec;

impl SequenceRun<'_> {
    /// Runs a call on the registry of both and compares the results.
    pub(crate) async fn run_on_registry(
        &mut self,
        handle: Handle,
        operation: &RegistryOperation,
    ) -> ComparisonResult<String> {
        use RegistryOperation as Op;
        match operation {
            Op::CreateApplication { .. }
            | Op::PutApplication { .. }
            | Op::ChangeApplication { .. }
            | Op::DeleteApplication { .. } => self.run_on_applications(handle, operation).await,
            Op::CreateEventType { .. }
            | Op::PutEventType { .. }
            | Op::ChangeEventType { .. }
            | Op::ExpungeEventType { .. } => self.run_on_event_types(handle, operation).await,
            Op::CreateEndpoint { .. }
            | Op::PutEndpoint { .. }
            | Op::ChangeEndpoint { .. }
            | Op::DeleteEndpoint { .. }
            | Op::CountEvents { .. } => self.run_on_endpoints(handle, operation).await,
            Op::Publish { .. } | Op::ExpungeMessage { .. } | Op::Resend { .. } => {
                self.run_on_messages(handle, operation).await
            }
            Op::StartOperation { .. } | Op::AdvanceOperations { .. } | Op::StopOperation(_) => {
                self.run_on_operations(handle, operation).await
            }
            Op::FindUrlDestination(_) | Op::RotateKey { .. } | Op::SetHeaders { .. } | Op::Reseal { .. } => {
                self.run_on_keys(handle, operation).await
            }
            Op::List { list, from, limit } => self.compare_list(handle, list, *from, *limit).await,
        }
    }

    /// Compares the results of a call that may be refused. `convert` converts the store's value to the model's ids and clock.
    /// Returns the values if the call succeeded.
    pub(crate) fn compare_calls<T: PartialEq + Debug>(
        &mut self,
        what: &'static str,
        store: Result<T, StoreError>,
        model: Result<T, StoreError>,
        convert: impl FnOnce(&mut Self, &T, &T) -> ComparisonResult<T>,
    ) -> ComparisonResult<Option<Counterparts<T>>> {
        match (store, model) {
            (Ok(store), Ok(model)) => {
                let converted = convert(self, &store, &model)?;
                compare(what, &model, &converted)?;
                self.tally.add(what, 1);
                Ok(Some(Counterparts { store, model }))
            }
            (store, model) => {
                self.tally.add("refused registry calls", 1);
                let result = |result: &Result<T, StoreError>| match result {
                    Ok(value) => format!("{value:?}"),
                    Err(error) => format!("{error:?}"),
                };
                if store.is_ok() || model.is_ok() {
                    let (model, store) = (result(&model), result(&store));
                    return Err(Difference::new(format!(
                        "{what} differs:\n  model: {model}\n  store: {store}"
                    )));
                }
                self.compare_errors(store.err().as_ref(), model.err().as_ref())?;
                Ok(None)
            }
        }
    }

    /// Compares the answers that are kept under a key.
    async fn compare_answer(&self, handle: Handle, answer: Option<AnswerSpec>) -> ComparisonResult {
        let Some(answer) = answer else { return Ok(()) };
        let key = answer_key(answer);
        let store = self.store(handle).answers().find(&key).await;
        let store = store.map_err(|error| Difference::failed("find an answer", &error))?;
        let model = self.model.answers().find(&key).await.expect("the model is always up");
        let parts = |kept: Option<posthaste_store::KeptAnswer>| {
            kept.map(|kept| (kept.answer.status, kept.answer.body, kept.fingerprint))
        };
        compare("the kept answer", &parts(model), &parts(store))
    }
}

const fn answer_key(answer: AnswerSpec) -> AnswerKey {
    AnswerKey([answer.number; 32])
}

/// Returns a slot for the answer to a call. `render` returns a text that is the same for the store and the model.
fn slot<T>(
    answer: Option<AnswerSpec>,
    render: impl Fn(&T) -> String + Send + Sync + 'static,
) -> Option<AnswerSlot<T>> {
    answer.map(|spec| AnswerSlot {
        key: answer_key(spec),
        fingerprint: [spec.number + 1; 32],
        keep_for: spec.keep_for,
        render: Arc::new(move |value| Answer { status: 201, body: Bytes::from(render(value)) }),
    })
}
