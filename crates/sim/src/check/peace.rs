//! What must come true when the faults have ended.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use posthaste_domain::{DeliveryStatus, FailureKind, Timestamp};

use super::{Checker, hold};
use crate::client::is_poison;
use crate::incarnation::Incarnation;

impl Checker {
    pub(crate) fn all_is_settled(&self) -> bool {
        self.memory.with_state(|state| state.rows.values().all(|row| row.status != DeliveryStatus::Pending))
    }

    pub(crate) fn out_of_patience(&self, patience: Duration) {
        let waiting = self.memory.with_state(|state| {
            let pending = state.rows.values().filter(|row| row.status == DeliveryStatus::Pending);
            pending.map(|row| format!("{row:?}")).collect::<Vec<_>>()
        });
        self.broken("P2", format!("{patience:?} after the last fault still pending: {waiting:?}"));
    }

    /// P11: what is ready is claimed within a poll or so, once workers are up again, hanging sends have ended and
    /// circuits have closed.
    pub(crate) fn nothing_waits_too_long(&self, peace_began: Timestamp, processes: &[Arc<Incarnation>]) {
        let now = self.clock.timestamp();
        let settings = &self.scenario.settings;
        let grace = settings.lease.duration() * 2 + settings.timeout + settings.breaker.cool_down() * 2;
        let settled_since = peace_began.after(grace + Duration::from_secs(90));
        let patience = settings.poll_interval + Duration::from_secs(5);
        // Poison takes workers down in peace too.
        let Some(manned_since) = processes.iter().map(|process| process.booted_at()).min() else { return };
        let known = self.known();
        let finding = (|| {
            for row in known.rows.values().filter(|row| row.is_ready(now) && !is_poison(&row.payload)) {
                let paused_until = known.paused.get(&row.destination_id).copied();
                let expired_at = row.lease.as_ref().map(|lease| lease.until);
                let ready_since = row.next_attempt_at.max(expired_at).max(paused_until);
                let ready_since = ready_since.max(Some(settled_since)).max(Some(manned_since));
                let waited = ready_since.map_or(Duration::ZERO, |since| now.since(since));
                hold!("P11", waited <= patience, "{} has been ready for {waited:?}", row.event_id);
            }
            for process in processes.iter().filter(|process| process.is_at_peace_since(settled_since)) {
                let silent = process.silent_for();
                let patience = patience + settings.poll_interval;
                hold!("P11", silent <= patience, "{} has claimed nothing for {silent:?}", process.worker_id);
            }
            Ok(())
        })();
        self.file(known, finding);
    }

    /// What can only be said when all is over.
    pub(crate) fn in_the_end(&self, processes: &[Arc<Incarnation>]) {
        let known = self.known();
        let finding = self.memory.with_state(|state| {
            let rows = state.rows.len() as u64 + known.counts.removed;
            hold!("P1", rows == self.scenario.events as u64, "{rows} events of {}", self.scenario.events);
            let payloads: BTreeSet<_> = state.rows.values().map(|row| &row.payload).collect();
            hold!("P1", payloads.len() == state.rows.len(), "a repeated request made a second event");
            for (key, row) in &state.rows {
                let account = known.accounts.get(key).copied().unwrap_or_default();
                let requests = known.witness.requests_of(&row.event_id);
                let (outcomes, exact) = (account.outcomes, account.abandoned == 0);
                hold!(
                    "P9",
                    !exact || requests == outcomes,
                    "{requests} requests for {} in {outcomes} outcomes, though no lease was lost",
                    row.event_id
                );
                let given_up =
                    matches!(row.failure_kind, Some(FailureKind::Abandoned | FailureKind::Cancelled));
                hold!("P10", !is_poison(&row.payload) || given_up, "poison ended as {row:?}");
            }
            let end = state.notices.last().map(|last| last.cursor);
            let lately = self.clock.timestamp().before(self.scenario.settings.poll_interval * 2);
            for process in processes.iter().filter(|process| process.is_at_peace_since(lately)) {
                let heard = process.heard();
                let all = heard.is_none() || end.is_none() || heard >= end;
                hold!("P13", all, "followers of {} heard up to {heard:?} of {end:?}", process.worker_id);
            }
            Ok(())
        });
        self.file(known, finding);
    }
}
