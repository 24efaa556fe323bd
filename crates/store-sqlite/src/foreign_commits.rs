//! Notices commits of other connections that bring new events: SQL clients, other processes, and transactions that the
//! application passes to the store.
//!
//! `PRAGMA data_version` of the writer's connection changes with every commit of another connection, and never with its own.
//! Reading it costs a few microseconds and no disk access.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rusqlite::Connection;

/// How often an idle writer looks for commits of other connections.
const INTERVAL: Duration = Duration::from_millis(5);

/// What the writer has seen of other connections.
pub(crate) struct ForeignCommits {
    has_worker: Arc<AtomicBool>,
    data_version: Option<i64>,
    /// The last event key and the number of pending events at the last look.
    last: (i64, i64),
}

impl ForeignCommits {
    pub(crate) fn new(has_worker: Arc<AtomicBool>) -> Self {
        Self { has_worker, data_version: None, last: (0, 0) }
    }

    /// Returns how long the writer may sleep before it looks again. `None` while no worker of this process needs to know.
    pub(crate) fn interval(&self) -> Option<Duration> {
        self.has_worker.load(Ordering::Relaxed).then_some(INTERVAL)
    }

    /// Returns whether another connection has committed new events, or made events pending again, since the last look. An error
    /// is left to the next command, which meets it as well.
    pub(crate) fn look(&mut self, db: &Connection) -> bool {
        if !self.has_worker.load(Ordering::Relaxed) {
            return false;
        }
        self.try_look(db).unwrap_or_else(|error| {
            tracing::debug!(%error, "cannot look for commits of other processes");
            false
        })
    }

    fn try_look(&mut self, db: &Connection) -> rusqlite::Result<bool> {
        let version = db.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?;
        if self.data_version == Some(version) {
            return Ok(false);
        }
        let is_first_look = self.data_version.replace(version).is_none();
        let totals = "SELECT last_event_key, pending FROM webhook_totals WHERE id = 1";
        let now = db.prepare_cached(totals)?.query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let (last_key, pending) = std::mem::replace(&mut self.last, now);
        Ok(!is_first_look && (now.0 > last_key || now.1 > pending))
    }
}
