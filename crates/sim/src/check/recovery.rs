//! Checks after the fault phase: liveness, and the end state.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use posthaste_domain::{DeliveryStatus, EventKey, FailureKind, Timestamp};
use posthaste_store_memory::Row;

use super::registry::EndpointState;
use super::step::check_row;
use super::{Checker, require};
use crate::client::is_poison;
use crate::process::Process;

impl Checker {
    pub(crate) fn all_events_ended(&self) -> bool {
        self.memory.with_state(|state| state.rows.values().all(|row| row.status != DeliveryStatus::Pending))
    }

    pub(crate) fn report_unfinished(&self, recovery_time: Duration) {
        let waiting = self.memory.with_state(|state| {
            let pending = state.rows.values().filter(|row| row.status == DeliveryStatus::Pending);
            pending.map(|row| format!("{row:?}")).collect::<Vec<_>>()
        });
        self.report_violation(
            "P2",
            format!("still pending {recovery_time:?} after the last fault: {waiting:?}"),
        );
    }

    /// P11: ready events are claimed within about one poll interval, once workers have restarted, hanging requests
    /// have ended and circuits have closed. P2: from then on, every pending event is due within the longest delay or leased
    /// for at most one lease, even if the store's clock has stepped back.
    pub(crate) fn check_waiting(&self, faults_ended_at: Timestamp, processes: &[Arc<Process>]) {
        let now = self.clock.timestamp();
        let settings = &self.scenario.settings;
        let grace = settings.lease.duration() * 2 + settings.timeout + settings.breaker.cool_down() * 2;
        let recovered_since = faults_ended_at.after(grace + Duration::from_secs(90));
        let wait_max = settings.poll_interval + Duration::from_secs(5);
        // Poison events crash workers also after the fault phase.
        let Some(workers_since) = processes.iter().map(|process| process.booted_at()).min() else { return };
        let model = self.model();
        let result = (|| {
            if now > recovered_since {
                model.rows.values().try_for_each(|row| check_row(row, now, &self.scenario))?;
            }
            let may_be_sent = |(key, row): &(&EventKey, &Row)| {
                let state = model.registry.state_of(row.destination_id);
                row.is_ready(now)
                    && !is_poison(model.payload_of(row))
                    && state.is_none_or(|state| state == EndpointState::Enabled)
                    && !model.waits_in_line(**key, row)
            };
            for (_, row) in model.rows.iter().filter(may_be_sent) {
                let paused_until = model.paused_until(row.destination_id);
                // A throttle lets the events of a destination wait for each other, by up to a second for each.
                let throttled_until = model
                    .last_throttled_lease_at(row.destination_id)
                    .map(|at| now.before(self.clock.elapsed() - at).after(Duration::from_secs(1)));
                let expired_at = row.lease.as_ref().map(|lease| lease.until);
                let ready_since = row
                    .next_attempt_at
                    .max(expired_at)
                    .max(paused_until)
                    .max(throttled_until)
                    .max(model.line_moved_at(row.destination_id))
                    .max(model.resumed.get(&row.destination_id).copied());
                let ready_since = ready_since.max(Some(recovered_since)).max(Some(workers_since));
                let waited = ready_since.map_or(Duration::ZERO, |since| now.since(since));
                require!("P11", waited <= wait_max, "{} has been ready for {waited:?}", row.event_id);
            }
            for process in processes.iter().filter(|process| process.is_undisturbed_since(recovered_since)) {
                let since_claim = process.time_since_claim();
                let wait_max = wait_max + settings.poll_interval;
                require!(
                    "P11",
                    since_claim <= wait_max,
                    "{} has not claimed for {since_claim:?}",
                    process.worker_id
                );
            }
            Ok(())
        })();
        self.record_result(model, result);
    }

    /// Checks what holds only at the end: the number of events and requests, poison events, and subscribers.
    pub(crate) fn check_end_state(&self, processes: &[Arc<Process>]) {
        let model = self.model();
        let result = self.memory.with_state(|state| {
            let rows = state.rows.len() as u64 + model.counts.all_removed();
            let enqueued = self.scenario.events as u64 + model.events_of_messages;
            require!("P1", rows == enqueued, "{rows} events of {enqueued}");
            let direct = || state.rows.values().filter(|row| row.message_key.is_none());
            let payloads: BTreeSet<_> = direct().map(|row| &row.payload).collect();
            require!("P1", payloads.len() == direct().count(), "a repeated request created a second event");
            for (key, row) in &state.rows {
                let account = model.accounts.get(key).copied().unwrap_or_default();
                let requests = model.request_log.requests_of(*key);
                let (outcomes, exact) = (account.outcomes, account.abandoned == 0);
                require!(
                    "P9",
                    !exact || requests == outcomes,
                    "{requests} requests for {} with {outcomes} outcomes, although no lease was lost",
                    row.event_id
                );
                let was_stopped = matches!(
                    row.failure_kind,
                    Some(FailureKind::Abandoned | FailureKind::Cancelled | FailureKind::Expired)
                );
                require!(
                    "P10",
                    !is_poison(model.payload_of(row)) || was_stopped,
                    "a poison event ended as {row:?}"
                );
            }
            let end = state.notices.last().map(|last| last.cursor);
            let recent = self.clock.timestamp().before(self.scenario.settings.poll_interval * 2);
            for process in processes.iter().filter(|process| process.is_undisturbed_since(recent)) {
                let last_notice = process.last_notice();
                let received_all = last_notice.is_none() || end.is_none() || last_notice >= end;
                require!(
                    "P13",
                    received_all,
                    "subscribers of {} received notices up to {last_notice:?} of {end:?}",
                    process.worker_id
                );
            }
            Ok(())
        });
        self.record_result(model, result);
    }
}
