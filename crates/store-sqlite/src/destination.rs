//! Destinations: the changes that settles and workers write to them, and their state for operators.

use std::collections::BTreeMap;
use std::time::Duration;

use posthaste_domain::{DestinationId, DestinationUrl, ReceiverHealth, Timestamp};
use posthaste_store::{CircuitReport, CircuitState, DestinationState, StoreError};
use rusqlite::{Connection, OptionalExtension as _};

use crate::error::CallError;
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

    /// Writes the collected changes. Each statement skips rows that already have the value, as after most settles.
    pub(crate) fn write(&self, db: &Connection, now: Timestamp) -> rusqlite::Result<()> {
        for (destination, update) in &self.0 {
            if let Some(wait) = update.pause {
                db.prepare_cached(
                    "UPDATE webhook_destinations
                     SET paused_until = ?2
                     WHERE id = ?1 AND (paused_until IS NULL OR paused_until < ?2)",
                )?
                .execute((destination.0, now.after(wait).as_micros()))?;
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
                Some(FailureRun::Ended) => {
                    db.prepare_cached(
                        "UPDATE webhook_destinations
                         SET failing_since = NULL
                         WHERE id = ?1 AND failing_since IS NOT NULL",
                    )?
                    .execute([destination.0])?;
                }
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
        Ok(())
    }
}

/// Stores the circuit states that a worker reports, each with the time when it expires.
pub(crate) fn report_circuits(
    db: &Connection,
    now: Timestamp,
    reports: &[CircuitReport],
) -> Result<(), CallError> {
    let mut report_circuit = db.prepare_cached(
        "UPDATE webhook_destinations
         SET circuit = ?2, circuit_worker = ?3, circuit_until = ?4
         WHERE id = ?1",
    )?;
    for report in reports {
        let until = now.after(report.expires_in).as_micros();
        report_circuit.execute((
            report.destination.0,
            report.state.as_str(),
            report.worker.as_str(),
            until,
        ))?;
    }
    Ok(())
}

/// Reads a destination's state for operators.
pub(crate) fn read_destination(
    db: &Connection,
    now: Timestamp,
    id: DestinationId,
) -> Result<DestinationState, CallError> {
    let state = db
        .prepare_cached(
            "SELECT url, circuit, circuit_until, paused_until, failing_since
             FROM webhook_destinations
             WHERE id = ?1",
        )?
        .query_row([id.0], |row| {
            let reported = row::decode_optional(row, 1, CircuitState::from_name)?;
            let is_current = row::optional_timestamp(row, 2)?.is_some_and(|until| until > now);
            Ok(DestinationState {
                id,
                url: DestinationUrl::from_stored(row.get(0)?),
                circuit: reported.filter(|_| is_current).unwrap_or(CircuitState::Closed),
                paused_until: row::optional_timestamp(row, 3)?.filter(|until| *until > now),
                failing_since: row::optional_timestamp(row, 4)?,
            })
        })
        .optional()?;
    state.ok_or(CallError::Refused(StoreError::DestinationNotFound { id: id.0 }))
}
