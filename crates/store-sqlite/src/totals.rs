//! The number of events in each state, kept in one row, because counting the events would cost more as the history
//! grows. The row also holds the last ids that were assigned.

use posthaste_domain::FailureKind;
use rusqlite::Connection;

/// The changes that a command makes to the stored event totals, written once in the command's transaction.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct TotalsChange {
    pending: i64,
    retrying: i64,
    failed: i64,
    cancelled: i64,
    delivered: i64,
    assigned_keys: i64,
}

impl TotalsChange {
    /// Counts a new event, which was stored under the next event key.
    pub(crate) fn add_enqueued(&mut self) {
        self.pending += 1;
        self.assigned_keys += 1;
    }

    /// Counts an attempt after which the event stays pending.
    pub(crate) fn add_retried(&mut self, attempts_before: u32) {
        self.retrying += i64::from(attempts_before == 0);
    }

    /// Counts a pending event that reached a terminal state: failed with this kind, or delivered without one.
    pub(crate) fn add_ended(&mut self, attempts_before: u32, failure_kind: Option<FailureKind>) {
        self.pending -= 1;
        self.retrying -= i64::from(attempts_before > 0);
        match failure_kind {
            None => self.delivered += 1,
            Some(kind) => {
                self.failed += 1;
                self.cancelled += i64::from(kind == FailureKind::Cancelled);
            }
        }
    }

    /// Counts the cancelling of an event that had failed with this kind.
    pub(crate) fn add_cancelled(&mut self, kind_before: FailureKind) {
        self.cancelled += i64::from(kind_before != FailureKind::Cancelled);
    }

    /// Counts a failed event that is pending again.
    pub(crate) fn add_requeued(&mut self, kind_before: FailureKind) {
        self.failed -= 1;
        self.cancelled -= i64::from(kind_before == FailureKind::Cancelled);
        self.pending += 1;
    }

    /// Counts a failed event of this kind that was removed.
    pub(crate) fn add_removed_failure(&mut self, kind: FailureKind) {
        self.failed -= 1;
        self.cancelled -= i64::from(kind == FailureKind::Cancelled);
    }

    /// Counts delivered events that retention removed.
    pub(crate) fn add_removed(&mut self, events: usize) {
        self.delivered -= i64::try_from(events).expect("event keys are i64, so their number fits");
    }

    pub(crate) fn write(&self, db: &Connection) -> rusqlite::Result<()> {
        if *self == Self::default() {
            return Ok(());
        }
        db.prepare_cached(
            "UPDATE webhook_totals
             SET pending        = pending        + ?1,
                 retrying       = retrying       + ?2,
                 failed         = failed         + ?3,
                 cancelled      = cancelled      + ?4,
                 delivered      = delivered      + ?5,
                 last_event_key = last_event_key + ?6
             WHERE id = 1",
        )?
        .execute((
            self.pending,
            self.retrying,
            self.failed,
            self.cancelled,
            self.delivered,
            self.assigned_keys,
        ))?;
        Ok(())
    }
}

/// Adds to the number of rows of `webhook_deferred`. Most events are never in that table.
pub(crate) fn count_deferred(db: &Connection, change: i64) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE webhook_totals SET deferred = deferred + ?1 WHERE id = 1")?
        .execute([change])?;
    Ok(())
}

/// Returns the last key that was assigned to an event.
pub(crate) fn last_event_key(db: &Connection) -> rusqlite::Result<i64> {
    db.prepare_cached("SELECT last_event_key FROM webhook_totals WHERE id = 1")?
        .query_row([], |row| row.get(0))
}

/// Assigns the id of the next row of the notice log.
pub(crate) fn next_notice_id(db: &Connection) -> rusqlite::Result<i64> {
    db.prepare_cached(
        "UPDATE webhook_totals SET last_notice_id = last_notice_id + 1 WHERE id = 1 RETURNING last_notice_id",
    )?
    .query_row([], |row| row.get(0))
}

/// Returns the last id that was assigned to a row of the notice log.
pub(crate) fn last_notice_id(db: &Connection) -> rusqlite::Result<i64> {
    db.prepare_cached("SELECT last_notice_id FROM webhook_totals WHERE id = 1")?
        .query_row([], |row| row.get(0))
}
