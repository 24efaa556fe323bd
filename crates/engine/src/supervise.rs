//! Containment of panics. A panic is a bug; these wrappers keep it from ending a loop or a batch.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use posthaste_store::StoreError;

use crate::clock::Clock;

const RESTART_DELAY: Duration = Duration::from_secs(1);

/// Runs the future made by `start`, and starts a new one whenever it panics.
///
/// A panic drops everything that the future holds. Store calls inside it are therefore wrapped in
/// [`catch_store_panic`], so that a panicking adapter does not take the loop's state with it.
pub(crate) async fn restart_on_panic<F: Future>(
    name: &'static str,
    clock: Arc<dyn Clock>,
    start: impl Fn() -> F,
) -> F::Output {
    loop {
        match AssertUnwindSafe(async { start().await }).catch_unwind().await {
            Ok(output) => return output,
            Err(_) => {
                tracing::error!(name, "a loop panicked; this is a bug. It restarts in {RESTART_DELAY:?}");
                clock.sleep(RESTART_DELAY).await;
            }
        }
    }
}

/// Runs a store call and turns a panic of the adapter into [`StoreError::Rejected`].
pub(crate) async fn catch_store_panic<T>(
    call: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    match AssertUnwindSafe(call).catch_unwind().await {
        Ok(result) => result,
        Err(_) => {
            tracing::error!("the store's adapter panicked; this is a bug");
            Err(StoreError::Rejected { reason: "the store's adapter panicked".to_owned() })
        }
    }
}
