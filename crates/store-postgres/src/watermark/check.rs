//! The check of the watermark: looks for pending events below it, however it was raised.
//!
//! Below the watermark the queue's index usually holds only the dead entries of delivered events that vacuum has not
//! removed. A snapshot held open elsewhere can keep vacuum from removing them for hours. The check therefore reads in
//! steps, each of which ends before the statement timeout.

use std::time::Duration;

use posthaste_store::StoreError;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use crate::error::unavailable;
use crate::session::Sql;
use crate::{StoreState, sleep};

/// Time between two steps, so that the load of a long check stays low.
const STEP_INTERVAL: Duration = Duration::from_millis(20);
/// Smallest step: reading this few keys takes milliseconds.
const STEP_KEYS_MIN: i64 = 10_000;

/// Reads the watermark.
static READ_WATERMARK: Sql =
    Sql { text: "SELECT w.min_key FROM app.webhook_pending_watermark w", types: &[] };

/// Lowers the watermark to the smallest pending key after $1 and up to $2, and returns that key. Returns no row if
/// there is none, or if the watermark is not above it. Uses index webhook_queue_id.
static LOWER_WATERMARK: Sql = Sql {
    text: "
UPDATE app.webhook_pending_watermark w
SET min_key = missed.id
FROM (
    SELECT q.id FROM app.webhook_queue q WHERE q.id > $1 AND q.id <= $2 ORDER BY q.id LIMIT 1
) missed
WHERE w.min_key > missed.id
RETURNING missed.id",
    types: &[Type::INT8, Type::INT8],
};

/// How many keys a step reads. The size adapts to how many a statement can read before its timeout.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StepSize(i64);

impl Default for StepSize {
    /// The first step reads all keys below the watermark.
    fn default() -> Self {
        Self(i64::MAX)
    }
}

impl StepSize {
    /// Returns the last key of a step that starts after `after` and ends at `end` at the latest.
    fn step_end(self, after: i64, end: i64) -> i64 {
        after.saturating_add(self.0).min(end)
    }

    fn grow(&mut self) {
        self.0 = self.0.saturating_mul(2);
    }

    /// Shrinks to half of a step that took too long. Returns false if that step was as small as possible.
    fn shrink(&mut self, too_long: i64) -> bool {
        self.0 = (too_long / 2).max(STEP_KEYS_MIN);
        too_long > STEP_KEYS_MIN
    }
}

/// Looks for pending events below the watermark, and lowers the watermark to the first one.
pub(crate) async fn check(store: &StoreState, step_size: &mut StepSize) -> Result<(), StoreError> {
    let read = store.sessions.operate.with(async |session| {
        let rows = session.transact(&READ_WATERMARK, &[]).await?;
        rows.first().map(|row| row.try_get::<_, i64>(0)).transpose()
    });
    let Some(watermark) = read.await? else { return Ok(()) };
    let (mut after, end) = (0, watermark - 1);
    while after < end {
        let step_end = step_size.step_end(after, end);
        let step = store.sessions.operate.with(async |session| {
            match session.transact(&LOWER_WATERMARK, &[&after, &step_end]).await {
                Err(error) if error.code() == Some(&SqlState::QUERY_CANCELED) => Ok(None),
                rows => rows?.first().map(|row| row.try_get::<_, i64>(0)).transpose().map(Some),
            }
        });
        match step.await? {
            Some(None) => {
                after = step_end;
                step_size.grow();
            }
            Some(Some(key)) => {
                tracing::warn!(
                    key,
                    watermark,
                    "lowered the oldest-pending watermark to a pending event below it"
                );
                return Ok(());
            }
            None if step_size.shrink(step_end - after) => {}
            None => {
                return Err(unavailable(
                    "reading a few keys below the oldest-pending watermark took too long",
                ));
            }
        }
        if after < end {
            sleep(STEP_INTERVAL).await;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_takes_too_long_is_halved_and_quick_steps_double() {
        let mut size = StepSize::default();
        assert_eq!(size.step_end(0, 100_000_000), 100_000_000, "the first step reads everything");
        assert!(size.shrink(100_000_000));
        assert_eq!(size.step_end(0, 100_000_000), 50_000_000);
        size.grow();
        assert_eq!(size.step_end(50_000_000, 100_000_000), 100_000_000);
    }

    #[test]
    fn the_smallest_step_is_not_halved() {
        let mut size = StepSize::default();
        assert!(size.shrink(STEP_KEYS_MIN + 1));
        assert_eq!(size.step_end(0, i64::MAX), STEP_KEYS_MIN);
        assert!(!size.shrink(STEP_KEYS_MIN));
    }
}
