//! The number of events in each state, kept in one row, because counting the events would cost more as the history
//! grows.

use posthaste_domain::DeliveryStatus;
use rusqlite::Connection;

/// The changes that a command makes to the stored event totals, written once in the command's transaction.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct TotalsChange {
    pending: i64,
    retrying: i64,
    failed: i64,
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

    /// Counts a pending event that reached a terminal state.
    pub(crate) fn add_ended(&mut self, attempts_before: u32, status: DeliveryStatus) {
        self.pending -= 1;
        self.retrying -= i64::from(attempts_before > 0);
        match status {
            DeliveryStatus::Delivered => self.delivered += 1,
            DeliveryStatus::Failed => self.failed += 1,
            DeliveryStatus::Pending => unreachable!("pending is not a terminal state"),
        }
    }

    /// Counts a failed event that is pending again.
    pub(crate) fn add_requeued(&mut self) {
        self.failed -= 1;
        self.pending += 1;
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
                 delivered      = delivered      + ?4,
                 last_event_key = last_event_key + ?5
             WHERE id = 1",
        )?
        .execute((self.pending, self.retrying, self.failed, self.delivered, self.assigned_keys))?;
        Ok(())
    }
}

/// Returns the last key that was assigned to an event.
pub(crate) fn last_event_key(db: &Connection) -> rusqlite::Result<i64> {
    db.prepare_cached("SELECT last_event_key FROM webhook_totals WHERE id = 1")?
        .query_row([], |row| row.get(0))
}
