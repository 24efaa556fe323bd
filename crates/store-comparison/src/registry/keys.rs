//! Keys and custom headers of destinations. Both stores get the same sealed values, under the same ids.

use std::sync::atomic::{AtomicU64, Ordering};

use posthaste_domain::DestinationUrl;
use posthaste_domain::seal::{MasterKeys, SealedId, SealedValue};
use posthaste_domain::signature::KeyKind;
use posthaste_store::{DestinationKey, NewKey, Reseal, RotateKey, Store as _};

use super::operation::RegistryOperation;
use super::slot;
use crate::difference::{ComparisonResult, Difference, compare};
use crate::operation::Handle;
use crate::sequence_run::SequenceRun;

/// Returns a sealed value with an id that is unique in this process.
pub(super) fn sealed() -> SealedValue {
    static SEALED: AtomicU64 = AtomicU64::new(0);
    let number = SEALED.fetch_add(1, Ordering::Relaxed);
    let id = SealedId::random(u128::from(number).to_be_bytes());
    MasterKeys::none().seal(id, format!("secret {number}").as_bytes(), [0; 12])
}

pub(super) fn new_key() -> NewKey {
    NewKey { kind: KeyKind::Hmac, sealed: sealed() }
}

impl SequenceRun<'_> {
    pub(super) async fn run_on_keys(
        &mut self,
        handle: Handle,
        operation: &RegistryOperation,
    ) -> ComparisonResult<String> {
        match operation {
            RegistryOperation::FindUrlDestination(url) => {
                let url = DestinationUrl::parse(url).expect("a valid URL");
                let store = self.store(handle).endpoints().url_destination(&url).await;
                let model = self.model.endpoints().url_destination(&url).await;
                self.compare_calls("destinations of URLs", store, model, |run, store, model| {
                    run.ids.destinations.pair(store, model).map(|()| *model)
                })?;
            }
            RegistryOperation::RotateKey { times, .. } => {
                for _ in 0..*times {
                    self.rotate_key(handle, operation).await?;
                }
            }
            RegistryOperation::SetHeaders { destination, is_expected, has_headers } => {
                let id = self.destination(*destination);
                let current = self.store(handle).endpoints().headers(id.store).await;
                let model = self.model.endpoints().headers(id.model).await;
                let current =
                    self.compare_calls("headers read", current, model, |_, store, _| Ok(store.clone()))?;
                let current = current.and_then(|current| current.model);
                let expected = if *is_expected { current.map(|it| it.id) } else { Some(sealed().id) };
                let headers = has_headers.then(sealed);
                let store =
                    self.store(handle).endpoints().set_headers(id.store, expected, headers.as_ref()).await;
                let model = self.model.endpoints().set_headers(id.model, expected, headers.as_ref()).await;
                self.compare_calls("changed headers", store, model, |_, _, _| Ok(()))?;
            }
            RegistryOperation::Reseal { skip, limit, is_current } => {
                self.reseal(handle, *skip, *limit, *is_current).await?;
            }
            _ => unreachable!("the caller passes operations on keys"),
        }
        Ok(String::new())
    }

    async fn rotate_key(&mut self, handle: Handle, operation: &RegistryOperation) -> ComparisonResult {
        let RegistryOperation::RotateKey { destination, grace, actor, is_repeated, answer, .. } = operation
        else {
            unreachable!("the caller passes rotations");
        };
        let id = self.destination(*destination);
        let request = RotateKey { key: new_key(), grace: *grace, actor: actor.name() };
        let slot = slot(*answer, |keys: &Vec<DestinationKey>| format!("{} keys", keys.len()));
        for _ in 0..=usize::from(*is_repeated) {
            let store = self.store(handle);
            let store = store.endpoints().rotate_key(id.store, &request, slot.as_ref()).await;
            let model = self.model.endpoints().rotate_key(id.model, &request, slot.as_ref()).await;
            self.compare_calls("rotations", store, model, |run, store, model| {
                Ok(run.keys_to_model(store, model))
            })?;
        }
        self.compare_answer(handle.other(), *answer).await?;
        let store = self.store(handle.other()).endpoints().keys(id.store).await;
        let model = self.model.endpoints().keys(id.model).await;
        self.compare_calls("keys read", store, model, |run, store, model| {
            Ok(run.keys_to_model(store, model))
        })?;
        Ok(())
    }

    /// Lists sealed values and replaces their bytes. A call that names other bytes than the stored ones changes nothing.
    async fn reseal(
        &mut self,
        handle: Handle,
        skip: usize,
        limit: usize,
        is_current: bool,
    ) -> ComparisonResult {
        let all =
            self.model.endpoints().sealed_values(None, usize::MAX).await.expect("the model is always up");
        let after = skip.checked_sub(1).and_then(|last| Some(all.get(last)?.id));
        let handle = self.store(handle);
        let store = handle.endpoints().sealed_values(after, limit).await;
        let store = store.map_err(|error| Difference::failed("sealed_values", &error))?;
        let model = self.model.endpoints().sealed_values(after, limit).await.expect("the model is always up");
        let parts = |values: &[SealedValue]| -> Vec<(SealedId, Vec<u8>)> {
            values.iter().map(|value| (value.id, value.bytes.clone())).collect()
        };
        compare("the sealed values", &parts(&model), &parts(&store))?;
        let reseal = |old: SealedValue| {
            let new = SealedValue { id: old.id, bytes: [&old.bytes[..], b"again"].concat() };
            if is_current { Reseal { old, new } } else { Reseal { old: new.clone(), new } }
        };
        let values: Vec<Reseal> = model.into_iter().map(reseal).collect();
        let store = handle.endpoints().reseal(&values).await;
        let model = self.model.endpoints().reseal(&values).await;
        self.compare_calls("reseals", store, model, |_, store, _| Ok(*store)).map(drop)
    }
}
