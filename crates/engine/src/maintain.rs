//! Retention: removes what is no longer kept, a small step at a time.

use std::sync::Arc;
use std::time::Duration;

use posthaste_store::Retention;

use crate::worker::Worker;

const EVERY: Duration = Duration::from_secs(60);
/// Between two steps, so that dispatch always gets its turn.
const STEP_PAUSE: Duration = Duration::from_millis(100);
const ROWS_MAX: usize = 1_000;

pub(crate) async fn run(worker: Arc<Worker>) {
    let retention = Retention { keep: worker.settings.retention, rows_max: ROWS_MAX };
    loop {
        let pause = match worker.ports.store.maintain(&retention).await {
            Ok(maintained) if maintained.more => STEP_PAUSE,
            Ok(_) => EVERY,
            Err(error) => {
                tracing::warn!(code = error.code(), %error, "maintenance failed; trying again later");
                EVERY
            }
        };
        worker.ports.clock.sleep(pause).await;
    }
}
