//! A loop that panics is started again, and its failure is not passed over.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;

use crate::clock::Clock;

const RESTART_AFTER: Duration = Duration::from_secs(1);

/// Runs what `start` makes to its end, however often it takes. State that must outlive a panic lives outside it.
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
