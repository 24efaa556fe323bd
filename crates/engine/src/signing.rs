//! The signing keys of a process. The sender signs with them; a loop of the worker reloads them from the store, so that a
//! rotation needs no restart.
//!
//! A new secret signs beside the older ones. A secret stops signing only after the store has stopped to return it, which is
//! after the end of its grace period by the store's clock.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use posthaste_domain::signature::SigningKeys;
use posthaste_store::{GracePeriod, Store, StoreError};

use crate::supervise::catch_store_panic;
use crate::worker::Worker;

/// Time within which every running worker signs with a new secret, while the store answers.
pub const SECRETS_LEARNED_WITHIN: Duration = Duration::from_secs(5);
/// Pause between two readings of the store's secrets. It leaves time for the reading itself.
const RELOAD_INTERVAL: Duration = Duration::from_secs(2);

// A secret that has just been replaced must stay valid until all workers sign with its successor.
const _: () = assert!(GracePeriod::MIN.as_secs() > SECRETS_LEARNED_WITHIN.as_secs() * 2);

/// The signing keys that a process uses, replaceable while it runs. Clones share the keys.
#[derive(Debug, Clone)]
pub struct SharedSigningKeys(Arc<RwLock<Arc<SigningKeys>>>);

impl SharedSigningKeys {
    pub fn new(keys: SigningKeys) -> Self {
        Self(Arc::new(RwLock::new(Arc::new(keys))))
    }

    /// Reads the valid secrets of a store.
    pub async fn load(store: &dyn Store) -> Result<Self, StoreError> {
        Ok(Self::new(read_keys(store).await?.0))
    }

    /// Returns the keys with which a request is signed now.
    pub fn current(&self) -> Arc<SigningKeys> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the keys by the valid secrets of a store. Keeps the keys if that fails.
    pub async fn reload(&self, store: &dyn Store) -> Result<(), StoreError> {
        let (keys, newest_by) = read_keys(store).await?;
        if *self.current() == keys {
            return Ok(());
        }
        let valid = keys.secrets().len();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
        tracing::info!(valid, rotated_by = newest_by, "the signing secrets have changed");
        Ok(())
    }
}

/// Reads the valid secrets of a store, and who rotated to the newest of them.
async fn read_keys(store: &dyn Store) -> Result<(SigningKeys, Option<String>), StoreError> {
    let mut stored = catch_store_panic(store.signing_secrets()).await?;
    let newest_by = stored.first_mut().and_then(|newest| newest.created_by.take());
    let unusable =
        |error| StoreError::Rejected { reason: format!("the signing secrets are not usable: {error}") };
    let keys = SigningKeys::new(stored.into_iter().map(|stored| stored.secret).collect());
    Ok((keys.map_err(unusable)?, newest_by))
}

/// Reloads the worker's signing keys until the worker ends. Does nothing if they are not those of the store.
pub(crate) async fn run(worker: Arc<Worker>) {
    let Some(keys) = &worker.ports.reloaded_keys else { return };
    let mut is_failing = false;
    loop {
        let reloaded = keys.reload(&*worker.ports.store).await;
        if let Err(error) = &reloaded
            && !is_failing
        {
            tracing::warn!(worker_id = %worker.settings.worker_id, code = error.code(), %error,
                "the signing secrets could not be read; this worker signs with those it has, and tries again");
        }
        is_failing = reloaded.is_err();
        worker.ports.clock.sleep(RELOAD_INTERVAL).await;
    }
}
