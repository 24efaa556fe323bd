//! What settles and workers tell of destinations, and what is known of one.

use std::collections::BTreeMap;
use std::time::Duration;

use posthaste_domain::{DestinationId, DestinationUrl, Health, Timestamp};
use posthaste_store::{CircuitReport, CircuitState, DestinationState, StoreError};
use rusqlite::{Connection, OptionalExtension as _};

use crate::fault::Fault;
use crate::row;

/// What a batch has to tell of its destinations, so that each row is written once however many events tell of it.
#[derive(Default)]
pub(crate) struct News(BTreeMap<DestinationId, Told>);

#[derive(Default)]
struct Told {
    pause: Option<Duration>,
    retry_at: Option<Timestamp>,
    health: Option<Run>,
}

/// The run of ill health after the batch, where something was heard of it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Run {
    /// It answered, and nothing failed after that.
    Over,
    /// It fails; since when may be known already.
    GoesOn,
    /// It answered, and failed after that.
    BeginsNow,
}

impl News {
    pub(crate) fn pause(&mut self, destination: DestinationId, wait: Duration) {
        let told = self.0.entry(destination).or_default();
        told.pause = told.pause.max(Some(wait));
    }

    /// A retry without a lease that is due at this moment: the destination's `retry_at` must not be later.
    pub(crate) fn retry(&mut self, destination: DestinationId, due: Timestamp) {
        let told = self.0.entry(destination).or_default();
        told.retry_at = Some(told.retry_at.map_or(due, |earlier| earlier.min(due)));
    }

    pub(crate) fn health(&mut self, destination: DestinationId, health: Health) {
        let run = match health {
            Health::Unknown => return,
            Health::Healthy => Run::Over,
            Health::Unhealthy => match self.0.get(&destination).and_then(|told| told.health) {
                None | Some(Run::GoesOn) => Run::GoesOn,
                Some(Run::Over | Run::BeginsNow) => Run::BeginsNow,
            },
        };
        self.0.entry(destination).or_default().health = Some(run);
    }

    /// Writes only where something changes: most settles bring no news.
    pub(crate) fn write(&self, db: &Connection, now: Timestamp) -> rusqlite::Result<()> {
        for (destination, told) in &self.0 {
            if let Some(wait) = told.pause {
                db.prepare_cached(
                    "UPDATE webhook_destinations
                     SET paused_until = ?2
                     WHERE id = ?1 AND (paused_until IS NULL OR paused_until < ?2)",
                )?
                .execute((destination.0, now.after(wait).as_micros()))?;
            }
            if let Some(due) = told.retry_at {
                db.prepare_cached(
                    "UPDATE webhook_destinations
                     SET retry_at = ?2
                     WHERE id = ?1 AND (retry_at IS NULL OR retry_at > ?2)",
                )?
                .execute((destination.0, due.as_micros()))?;
            }
            match told.health {
                None => {}
                Some(Run::Over) => {
                    db.prepare_cached(
                        "UPDATE webhook_destinations
                         SET failing_since = NULL
                         WHERE id = ?1 AND failing_since IS NOT NULL",
                    )?
                    .execute([destination.0])?;
                }
                Some(Run::GoesOn) => {
                    db.prepare_cached(
                        "UPDATE webhook_destinations
                         SET failing_since = ?2
                         WHERE id = ?1 AND failing_since IS NULL",
                    )?
                    .execute((destination.0, now.as_micros()))?;
                }
                Some(Run::BeginsNow) => {
                    db.prepare_cached("UPDATE webhook_destinations SET failing_since = ?2 WHERE id = ?1")?
                        .execute((destination.0, now.as_micros()))?;
                }
            }
        }
        Ok(())
    }
}

pub(crate) fn report_circuits(
    db: &Connection,
    now: Timestamp,
    reports: &[CircuitReport],
) -> Result<(), Fault> {
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

pub(crate) fn destination(
    db: &Connection,
    now: Timestamp,
    id: DestinationId,
) -> Result<DestinationState, Fault> {
    let state = db
        .prepare_cached(
            "SELECT url, circuit, circuit_until, paused_until, failing_since
             FROM webhook_destinations
             WHERE id = ?1",
        )?
        .query_row([id.0], |row| {
            let reported = row::optional_word(row, 1, CircuitState::from_word)?;
            let stands = row::optional_moment(row, 2)?.is_some_and(|until| until > now);
            Ok(DestinationState {
                id,
                url: DestinationUrl::stored(row.get(0)?),
                circuit: reported.filter(|_| stands).unwrap_or(CircuitState::Closed),
                paused_until: row::optional_moment(row, 3)?.filter(|until| *until > now),
                failing_since: row::optional_moment(row, 4)?,
            })
        })
        .optional()?;
    state.ok_or(Fault::Refused(StoreError::DestinationNotFound { id: id.0 }))
}
