//! The changes that a claim may make because the store's clock has stepped back. Computed independently of the store's code.
//!
//! The checker allows these changes and does not require them: what depends on them are the checks that every event is due,
//! leased and paused for no longer than it should be, and ends in time.

use std::time::Duration;

use posthaste_domain::{DeliveryStatus, Timestamp};
use posthaste_store_memory::{Row, State};

use super::{Checker, Model, Pause};

impl Model {
    /// Takes over the times that a claim has repaired: leases end a full lease from now, and what began in the future begins
    /// now.
    pub(super) fn follow_clock(&mut self, state: &State, now: Timestamp) {
        for (key, row) in &mut self.rows {
            if let Some(repaired) = repaired_row(row, now)
                && state.rows.get(key) != Some(row)
            {
                *row = repaired;
            }
        }
        for pause in self.paused.values_mut().chain(self.operator_paused.values_mut()) {
            let ahead = pause.at.since(now);
            *pause = Pause { at: pause.at.before(ahead), until: pause.until.before(ahead) };
        }
    }
}

impl Checker {
    /// Follows the store's clock, which has stepped back: moves the times of resumes back too, and lets throttled destinations and
    /// applications use their whole rate again, because the store dates what they have used by that clock.
    pub(crate) fn record_clock_step(&self, by: Duration) {
        let mut model = self.model();
        for resumed_at in model.resumed.values_mut() {
            *resumed_at = resumed_at.before(by);
        }
        model.registry.fill_buckets();
    }
}

/// Returns the row with repaired times; none if its times do not lie too far ahead.
fn repaired_row(row: &Row, now: Timestamp) -> Option<Row> {
    let due = row.next_attempt_at.filter(|_| row.status == DeliveryStatus::Pending)?;
    match &row.lease {
        Some(lease) if lease.until.since(now) > lease.duration => {
            let mut repaired = row.clone();
            repaired.lease.as_mut()?.until = now.after(lease.duration);
            Some(repaired)
        }
        None if row.updated_at > now => {
            // A released event may have been due before it was written; it stays due.
            let next_attempt_at = Some(due.before(row.updated_at.since(now)).max(now));
            Some(Row { next_attempt_at, updated_at: now, ..row.clone() })
        }
        _ => None,
    }
}
