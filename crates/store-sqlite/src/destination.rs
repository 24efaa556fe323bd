//! Destinations: the changes that settles, workers and operators write to them.

use std::collections::BTreeMap;
use std::time::Duration;

use posthaste_domain::{DestinationId, ReceiverHealth, Timestamp};
use posthaste_store::{
    CircuitReport, DestinationAction, DestinationStatus, PauseRequest, ProbeResponse, RequestedProbe,
    ResumedDestination, StoreError,
};
use rusqlite::Connection;

use crate::destination_view::read_status;
use crate::error::CallError;
use crate::key_runs::id_runs;
use crate::row;

/// The changes of a batch to its destinations, collected so that each destination's row is written once.
#[derive(Default)]
pub(crate) struct DestinationUpdates(BTreeMap<DestinationId, DestinationUpdate>);

#[derive(Default)]
struct DestinationUpdate {
    pause: Option<Duration>,
    earliest_retry_at: Option<Timestamp>,
    failures: Option<FailureRun>,
}

/// How a batch of outcomes changes a destination's run of failures. `failing_since` is the start of that run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FailureRun {
    /// The last outcome of the batch was healthy: the destination is not failing.
    Ended,
    /// All outcomes failed: an existing `failing_since` stays, otherwise the run begins now.
    Continues,
    /// A failure followed a healthy outcome of the same batch: the run begins now.
    BeginsNow,
}

/// Records that the destinations of a run are healthy. Most are already, so a statement for all of them writes nothing.
const END_FAILURES: &str = "
    UPDATE webhook_destinations
    SET failing_since = NULL
    WHERE id BETWEEN ?1 AND ?2 AND failing_since IS NOT NULL";

impl DestinationUpdates {
    /// Records that a destination is paused for `wait`; the longest pause of the batch wins.
    pub(crate) fn add_pause(&mut self, destination: DestinationId, wait: Duration) {
        let update = self.0.entry(destination).or_default();
        update.pause = update.pause.max(Some(wait));
    }

    /// Records that a retry is queued for the time `due`. [`write`](Self::write) lowers the destination's
    /// `earliest_retry_at` to it.
    pub(crate) fn add_retry(&mut self, destination: DestinationId, due: Timestamp) {
        let update = self.0.entry(destination).or_default();
        update.earliest_retry_at = Some(update.earliest_retry_at.map_or(due, |earlier| earlier.min(due)));
    }

    /// Records the receiver's health after an outcome; outcomes must be added in their order.
    pub(crate) fn add_health(&mut self, destination: DestinationId, health: ReceiverHealth) {
        let run = match health {
            ReceiverHealth::Unknown => return,
            ReceiverHealth::Healthy => FailureRun::Ended,
            ReceiverHealth::Unhealthy => match self.0.get(&destination).and_then(|update| update.failures) {
                None | Some(FailureRun::Continues) => FailureRun::Continues,
                Some(FailureRun::Ended | FailureRun::BeginsNow) => FailureRun::BeginsNow,
            },
        };
        self.0.entry(destination).or_default().failures = Some(run);
    }

    /// Returns since when a destination has been failing, with the outcomes that were added so far.
    pub(crate) fn failing_since(
        &self,
        db: &Connection,
        now: Timestamp,
        destination: DestinationId,
    ) -> rusqlite::Result<Option<Timestamp>> {
        let stored = || {
            db.prepare_cached("SELECT failing_since FROM webhook_destinations WHERE id = ?1")?
                .query_row([destination.0], |row| row::optional_timestamp(row, 0))
        };
        match self.0.get(&destination).and_then(|update| update.failures) {
            None => stored(),
            Some(FailureRun::Ended) => Ok(None),
            Some(FailureRun::Continues) => Ok(stored()?.or(Some(now))),
            Some(FailureRun::BeginsNow) => Ok(Some(now)),
        }
    }

    /// Writes the collected changes. Each statement skips rows that already have the value, as after most settles.
    pub(crate) fn write(&self, db: &Connection, now: Timestamp) -> rusqlite::Result<()> {
        let mut healthy = Vec::new();
        for (destination, update) in &self.0 {
            if let Some(wait) = update.pause {
                db.prepare_cached(
                    "UPDATE webhook_destinations
                     SET paused_until          = max(coalesce(paused_until, ?2), ?2),
                         receiver_paused_at    = CASE WHEN receiver_paused_until > ?3
                                                      THEN receiver_paused_at ELSE ?3 END,
                         receiver_paused_until = ?2
                     WHERE id = ?1 AND (receiver_paused_until IS NULL OR receiver_paused_until < ?2)",
                )?
                .execute((destination.0, now.after(wait).as_micros(), now.as_micros()))?;
            }
            if let Some(due) = update.earliest_retry_at {
                db.prepare_cached(
                    "UPDATE webhook_destinations
                     SET earliest_retry_at = ?2
                     WHERE id = ?1 AND (earliest_retry_at IS NULL OR earliest_retry_at > ?2)",
                )?
                .execute((destination.0, due.as_micros()))?;
            }
            match update.failures {
                None => {}
                Some(FailureRun::Ended) => healthy.push(destination.0),
                Some(FailureRun::Continues) => {
                    db.prepare_cached(
                        "UPDATE webhook_destinations
                         SET failing_since = ?2
                         WHERE id = ?1 AND failing_since IS NULL",
                    )?
                    .execute((destination.0, now.as_micros()))?;
                }
                Some(FailureRun::BeginsNow) => {
                    db.prepare_cached("UPDATE webhook_destinations SET failing_since = ?2 WHERE id = ?1")?
                        .execute((destination.0, now.as_micros()))?;
                }
            }
        }
        let mut end_failures = db.prepare_cached(END_FAILURES)?;
        for run in id_runs(healthy) {
            end_failures.execute(run)?;
        }
        Ok(())
    }
}

/// Pauses a destination, in place of an earlier pause by an operator.
pub(crate) fn pause(
    db: &Connection,
    now: Timestamp,
    id: DestinationId,
    pause: &PauseRequest,
) -> Result<DestinationStatus, CallError> {
    let until = pause.duration().map(|duration| now.after(duration).as_micros());
    let changed = db
        .prepare_cached(
            "UPDATE webhook_destinations
             SET operator_paused_at = ?2, operator_paused_until = ?3, operator_paused_by = ?4,
                 operator_pause_reason = ?5,
                 paused_until = CASE WHEN disabled_at IS NOT NULL THEN 9223372036854775807
                     ELSE max(coalesce(?3, 9223372036854775807), coalesce(receiver_paused_until, 0)) END
             WHERE id = ?1",
        )?
        .execute((id.0, now.as_micros(), until, pause.actor(), pause.reason()))?;
    if changed == 0 {
        return Err(StoreError::DestinationNotFound { id: id.0 }.into());
    }
    record_audit(db, now, id, DestinationAction::Pause, pause.actor(), until, pause.reason())?;
    read_status(db, now, id)
}

/// Ends the pauses of a destination, and forgets the open circuits that workers have reported.
pub(crate) fn resume(
    db: &Connection,
    now: Timestamp,
    id: DestinationId,
    actor: &str,
) -> Result<DestinationStatus, CallError> {
    let changed = db
        .prepare_cached(
            "UPDATE webhook_destinations
             SET paused_until = CASE WHEN disabled_at IS NOT NULL THEN 9223372036854775807 END, receiver_paused_at = NULL, receiver_paused_until = NULL,
                 operator_paused_at = NULL, operator_paused_until = NULL, operator_paused_by = NULL,
                 operator_pause_reason = NULL, resumed_at = ?2
             WHERE id = ?1",
        )?
        .execute((id.0, now.as_micros()))?;
    if changed == 0 {
        return Err(StoreError::DestinationNotFound { id: id.0 }.into());
    }
    db.prepare_cached("DELETE FROM webhook_circuits WHERE destination_id = ?1")?.execute([id.0])?;
    record_audit(db, now, id, DestinationAction::Resume, actor, None, None)?;
    read_status(db, now, id)
}

pub(crate) fn record_audit(
    db: &Connection,
    now: Timestamp,
    id: DestinationId,
    action: DestinationAction,
    actor: &str,
    paused_until: Option<i64>,
    reason: Option<&str>,
) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO webhook_destination_audit (destination_id, action, actor, at, paused_until, reason)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .execute((id.0, action.as_str(), actor, now.as_micros(), paused_until, reason))?;
    Ok(())
}

/// Asks for a probe of a destination whose circuit is open.
pub(crate) fn probe(
    db: &Connection,
    now: Timestamp,
    id: DestinationId,
    actor: &str,
) -> Result<ProbeResponse, CallError> {
    let status = read_status(db, now, id)?;
    let refusal = status.refuse_probe(has_waiting_event(db, id)?);
    if refusal.is_none() {
        // Two requests differ in their times.
        db.prepare_cached(
            "UPDATE webhook_destinations
             SET probe_requested_at = CASE WHEN probe_requested_at >= ?2 THEN probe_requested_at + 1 ELSE ?2 END
             WHERE id = ?1",
        )?
        .execute((id.0, now.as_micros()))?;
        record_audit(db, now, id, DestinationAction::Probe, actor, None, None)?;
    }
    Ok(ProbeResponse { status, refusal })
}

/// Returns whether an event of the destination is pending and without a lease. Indexes: the primary keys of the queues.
fn has_waiting_event(db: &Connection, id: DestinationId) -> rusqlite::Result<bool> {
    db.prepare_cached(
        "SELECT 1 FROM webhook_first_attempts f
         WHERE f.destination_id = ?1
           AND f.id >= (SELECT d.first_attempts_head FROM webhook_destinations d WHERE d.id = ?1)
         UNION ALL SELECT 1 FROM webhook_deferred WHERE destination_id = ?1
         UNION ALL SELECT 1 FROM webhook_retries WHERE destination_id = ?1",
    )?
    .exists([id.0])
}

/// Destinations with a request for a probe after a time. Index: webhook_destinations_probed.
pub(crate) const REQUESTED_PROBES: &str =
    "SELECT id, probe_requested_at FROM webhook_destinations WHERE probe_requested_at > ?1";

/// Returns the destinations for which an operator has asked for a probe within the last `within`.
pub(crate) fn requested_probes(
    db: &Connection,
    now: Timestamp,
    within: Duration,
) -> rusqlite::Result<Vec<RequestedProbe>> {
    let mut requested = db.prepare_cached(REQUESTED_PROBES)?;
    let rows = requested.query_map([now.before(within).as_micros()], |row| {
        Ok(RequestedProbe { destination: DestinationId(row.get(0)?), requested_at: row::timestamp(row, 1)? })
    })?;
    rows.collect()
}

/// Destinations that were resumed after a time. Index: webhook_destinations_resumed.
pub(crate) const RESUMED: &str = "SELECT id, resumed_at FROM webhook_destinations WHERE resumed_at > ?1";

/// Returns the destinations that were resumed within the last `within`.
pub(crate) fn resumed(
    db: &Connection,
    now: Timestamp,
    within: Duration,
) -> rusqlite::Result<Vec<ResumedDestination>> {
    let mut resumed = db.prepare_cached(RESUMED)?;
    let rows = resumed.query_map([now.before(within).as_micros()], |row| {
        Ok(ResumedDestination {
            destination: DestinationId(row.get(0)?),
            ago: now.since(row::timestamp(row, 1)?),
        })
    })?;
    rows.collect()
}

/// Destinations whose URL, keys or headers changed after a time. Index: webhook_destinations_updated.
pub(crate) const UPDATED: &str = "SELECT id FROM webhook_destinations WHERE profile_updated_at > ?1";

/// Returns the destinations whose URL, keys or headers changed within the last `within`.
pub(crate) fn updated(
    db: &Connection,
    now: Timestamp,
    within: Duration,
) -> rusqlite::Result<Vec<DestinationId>> {
    let mut updated = db.prepare_cached(UPDATED)?;
    updated.query_map([now.before(within).as_micros()], |row| row.get(0).map(DestinationId))?.collect()
}

/// Stores the open circuits that a worker reports, and removes those that it reports as closed. A circuit that opened
/// before its destination was resumed is not stored: the worker has not learned of the resume yet.
pub(crate) fn report_circuits(
    db: &Connection,
    now: Timestamp,
    reports: &[CircuitReport],
) -> Result<(), CallError> {
    let mut open = db.prepare_cached(
        "INSERT OR REPLACE INTO webhook_circuits
             (destination_id, worker, since, next_probe_at, last_error, reported_at, expires_at)
         SELECT id, ?2, ?3, ?4, ?5, ?6, ?7
         FROM webhook_destinations
         WHERE id = ?1 AND (resumed_at IS NULL OR resumed_at < ?3)",
    )?;
    let mut close =
        db.prepare_cached("DELETE FROM webhook_circuits WHERE destination_id = ?1 AND worker = ?2")?;
    for report in CircuitReport::last_of_each(reports) {
        let (id, worker) = (report.destination.0, report.worker.as_str());
        match &report.open {
            Some(circuit) => open.execute((
                id,
                worker,
                now.before(circuit.open_for).as_micros(),
                now.after(circuit.next_probe_in).as_micros(),
                circuit.last_error.as_deref(),
                now.as_micros(),
                now.after(circuit.expires_in).as_micros(),
            ))?,
            None => close.execute((id, worker))?,
        };
    }
    Ok(())
}

/// Removes the reports of workers that no longer renew them.
pub(crate) fn remove_expired_reports(db: &Connection, now: Timestamp) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM webhook_circuits WHERE expires_at <= ?1")?.execute([now.as_micros()])?;
    Ok(())
}
