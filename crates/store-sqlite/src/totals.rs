//! How many events are in each state, kept beside them: counting a history would cost what the history holds.

use posthaste_domain::DeliveryStatus;
use rusqlite::Connection;

/// What a command changes in the totals; written once, in the transaction that makes it so.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    pending: i64,
    retrying: i64,
    failed: i64,
    delivered: i64,
    keys: i64,
}

impl Change {
    /// Under the next key that is free.
    pub(crate) fn enqueued(&mut self) {
        self.pending += 1;
        self.keys += 1;
    }

    /// An outcome was recorded and there will be another attempt.
    pub(crate) fn retried(&mut self, attempts_before: u32) {
        self.retrying += i64::from(attempts_before == 0);
    }

    /// A pending event came to its end.
    pub(crate) fn ended(&mut self, attempts_before: u32, status: DeliveryStatus) {
        self.pending -= 1;
        self.retrying -= i64::from(attempts_before > 0);
        match status {
            DeliveryStatus::Delivered => self.delivered += 1,
            DeliveryStatus::Failed => self.failed += 1,
            DeliveryStatus::Pending => unreachable!("pending is no end"),
        }
    }

    pub(crate) fn requeued(&mut self) {
        self.failed -= 1;
        self.pending += 1;
    }

    /// Retention removed delivered events.
    pub(crate) fn removed(&mut self, events: usize) {
        self.delivered -= i64::try_from(events).expect("more events than keys");
    }

    pub(crate) fn write(&self, db: &Connection) -> rusqlite::Result<()> {
        if *self == Self::default() {
            return Ok(());
        }
        db.prepare_cached(
            "UPDATE webhook_totals
             SET pending   = pending   + ?1,
                 retrying  = retrying  + ?2,
                 failed    = failed    + ?3,
                 delivered = delivered + ?4,
                 last_key  = last_key  + ?5
             WHERE id = 1",
        )?
        .execute((self.pending, self.retrying, self.failed, self.delivered, self.keys))?;
        Ok(())
    }
}

/// The last key that was ever given to an event.
pub(crate) fn last_key(db: &Connection) -> rusqlite::Result<i64> {
    db.prepare_cached("SELECT last_key FROM webhook_totals WHERE id = 1")?.query_row([], |row| row.get(0))
}
