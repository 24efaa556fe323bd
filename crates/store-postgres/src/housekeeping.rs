//! Periodic background work that keeps operators' queries cheap: raises the oldest-pending watermark and compacts the
//! event counts.

use std::sync::Weak;
use std::time::Duration;

use crate::{StoreState, counts, sleep, watermark};

/// Time between two rounds.
const INTERVAL: Duration = Duration::from_secs(5);

/// Runs a round of housekeeping every [`INTERVAL`] until the store is dropped.
pub(crate) async fn run(store: Weak<StoreState>) {
    let mut candidate = None;
    loop {
        sleep(INTERVAL).await;
        let Some(store) = store.upgrade() else { return };
        match watermark::raise(&store, candidate).await {
            Ok(next) => candidate = next,
            Err(error) => {
                tracing::debug!(code = error.code(), %error, "oldest-pending watermark not raised; retrying in the next round");
            }
        }
        if let Err(error) = counts::compact(&store).await {
            tracing::debug!(code = error.code(), %error, "event counts not compacted; retrying in the next round");
        }
    }
}
