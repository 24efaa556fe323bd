//! Small bookkeeping beside the calls, so that what operators look at stays cheap.

use std::sync::Weak;
use std::time::Duration;

use crate::{Shared, counts, oldest, pause};

const EVERY: Duration = Duration::from_secs(5);

/// Tidies up for as long as the store is used by anybody.
pub(crate) async fn run(shared: Weak<Shared>) {
    let mut candidate = None;
    loop {
        pause(EVERY).await;
        let Some(store) = shared.upgrade() else { return };
        match oldest::raise(&store, candidate).await {
            Ok(next) => candidate = next,
            Err(error) => tracing::debug!(code = error.code(), %error, "the oldest key is raised later"),
        }
        if let Err(error) = counts::add_up(&store).await {
            tracing::debug!(code = error.code(), %error, "counts were not added up; the next round does");
        }
    }
}
