//! The retention loop: deletes expired rows from the store in small steps.

use std::sync::Arc;
use std::time::Duration;

use posthaste_store::Retention;

use crate::worker::Worker;

/// Pause when the last step left nothing to delete, or failed.
const IDLE_PAUSE: Duration = Duration::from_secs(60);
/// Pause between two steps of one cleanup, so that dispatch gets the store in between.
const STEP_PAUSE: Duration = Duration::from_millis(100);
const ROWS_MAX: usize = 1_000;
/// How long a destination without events is kept. A producer with a URL per event would otherwise leave a row per event.
const UNUSED_DESTINATIONS_KEPT_FOR: Duration = Duration::from_secs(24 * 3_600);

pub(crate) async fn run(worker: Arc<Worker>) {
    let retention = Retention {
        keep_for: worker.settings.retention,
        keep_dead_letters_for: worker.settings.dead_letter_retention,
        keep_unused_destinations_for: Some(UNUSED_DESTINATIONS_KEPT_FOR),
        rows_max: ROWS_MAX,
    };
    loop {
        let pause = match worker.ports.store.maintain(&retention).await {
            Ok(report) if report.has_more => STEP_PAUSE,
            Ok(_) => IDLE_PAUSE,
            Err(error) => {
                tracing::warn!(code = error.code(), %error, "maintenance failed; trying again later");
                IDLE_PAUSE
            }
        };
        worker.ports.clock.sleep(pause).await;
    }
}
