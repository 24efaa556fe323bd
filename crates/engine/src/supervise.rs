//! A panic is a bug, and costs as little as it can.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use posthaste_store::StoreError;

use crate::clock::Clock;

const RESTART_AFTER: Duration = Duration::from_secs(1);

/// Runs what `start` makes to its end, however often it takes. What it holds is lost with a panic, so calls that
/// could take much with them are [`contained`].
pub(crate) async fn supervised<F: Future>(
    name: &'static str,
    clock: Arc<dyn Clock>,
    start: impl Fn() -> F,
) -> F::Output {
    loop {
        match AssertUnwindSafe(async { start().await }).catch_unwind().await {
            Ok(output) => return output,
            Err(_) => {
                tracing::error!(name, "a loop panicked; this is a bug. It starts again in {RESTART_AFTER:?}");
                clock.sleep(RESTART_AFTER).await;
            }
        }
    }
}

/// A call to a store whose adapter may panic on what it finds: that is an answer like any other.
pub(crate) async fn contained<T>(call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    match AssertUnwindSafe(call).catch_unwind().await {
        Ok(answer) => answer,
        Err(_) => {
            tracing::error!("the store's adapter panicked; this is a bug");
            Err(StoreError::Rejected { reason: "the store's adapter panicked".to_owned() })
        }
    }
}
