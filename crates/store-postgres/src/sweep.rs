//! A look at every destination: when a process begins, and now and then after.
//!
//! Discovery follows what changes; the sweep finds what it could have missed: rows of transactions that were open when
//! the process began or committed very late, rows that were locked by somebody who then let go. It reads in small
//! steps, beside the claims.

use std::sync::{Arc, Weak};
use std::time::Duration;

use posthaste_domain::DestinationId;
use posthaste_store::StoreError;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::claim::Known;
use crate::discover::{self, HORIZON};
use crate::frontier::{RETRIES_FROM, Span};
use crate::session::{Session, Sql};
use crate::{Shared, pause};

/// Between two sweeps.
const EVERY: Duration = Duration::from_secs(20);
/// Destinations of one step.
const DESTINATIONS_MAX: i64 = 500;
/// Between two steps, so that very many destinations take longer and not more.
const STEP_PAUSE: Duration = Duration::from_millis(20);
/// Steps that a first claim waits for.
const BEGIN_STEPS: usize = 40;

/// Index webhook_queue_destination_turn, per destination, above everything that was delivered.
static STEP: Sql = Sql {
    text: "
SELECT d.id, first.turn, retry.turn
FROM (
    SELECT d.id FROM app.webhook_destinations d WHERE d.id > $1 ORDER BY d.id LIMIT $2
) d
LEFT JOIN LATERAL (
    SELECT q.turn
    FROM app.webhook_queue q
    WHERE q.destination_id = d.id AND q.turn >= (SELECT o.key FROM app.webhook_oldest o) AND q.turn < $3
          AND q.lease_until IS NULL
    ORDER BY q.turn
    LIMIT 1
) first ON true
LEFT JOIN LATERAL (
    SELECT q.turn
    FROM app.webhook_queue q
    WHERE q.destination_id = d.id AND q.turn >= $3 AND q.turn <= app.webhook_turn_at(app.webhook_now())
          AND q.lease_until IS NULL
    ORDER BY q.turn
    LIMIT 1
) retry ON true
ORDER BY d.id",
    types: &[Type::INT8, Type::INT8, Type::INT8],
};

/// How far a first sweep came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begun {
    Whole,
    InPart,
}

/// Fills an empty frontier, and sets the marks from which discovery goes on. With very many destinations, the first
/// claim does not wait for all of them: the rest is left to a sweep of its own.
pub(crate) async fn begin(session: &Session, known: &mut Known) -> Result<Begun, tokio_postgres::Error> {
    let rows = session.query(&HORIZON, &[]).await?;
    let (horizon, last_turn) = discover::horizon(&rows)?;
    known.marks.begin(last_turn, horizon.now);
    let mut after = i64::MIN;
    for _ in 0..BEGIN_STEPS {
        let rows = session.transact(&STEP, &[&after, &DESTINATIONS_MAX, &RETRIES_FROM]).await?;
        include(known, &rows, Some(last_turn))?;
        let Some(last) = rows.last() else { return Ok(Begun::Whole) };
        after = last.try_get(0)?;
    }
    Ok(Begun::InPart)
}

/// What a step found reaches up to where discovery has been; beyond, discovery finds it itself.
fn include(known: &mut Known, rows: &[Row], known_to: Option<i64>) -> Result<(), tokio_postgres::Error> {
    let (first_to, retry_to) = known.marks.known_to();
    let first_to = known_to.unwrap_or(first_to);
    for row in rows {
        let destination = DestinationId(row.try_get(0)?);
        if let Some(turn) = row.try_get::<_, Option<i64>>(1)? {
            known.frontier.firsts.include(destination, Span { low: turn - 1, high: first_to.max(turn) });
        }
        if let Some(turn) = row.try_get::<_, Option<i64>>(2)? {
            known.frontier.retries.include(destination, Span { low: turn - 1, high: retry_to.max(turn) });
        }
    }
    Ok(())
}

/// Sweeps for as long as the store is used by anybody.
pub(crate) async fn run(shared: Weak<Shared>) {
    loop {
        let Some(soon) = shared.upgrade().map(|store| Arc::clone(&store.sweep_soon)) else { return };
        tokio::select! {
            biased;
            () = soon.notified() => {}
            () = pause(EVERY) => {}
        }
        let Some(store) = shared.upgrade() else { return };
        if let Err(error) = sweep(&store).await {
            tracing::debug!(code = error.code(), %error, "the sweep was cut short; the next one makes up for it");
        }
    }
}

pub(crate) async fn sweep(store: &Shared) -> Result<(), StoreError> {
    let mut after = i64::MIN;
    loop {
        // Reading is done beside the claims; only what was found is taken in between two of them.
        let rows = store
            .sessions
            .operate
            .with(async |session| session.transact(&STEP, &[&after, &DESTINATIONS_MAX, &RETRIES_FROM]).await)
            .await?;
        let mut known = store.known.lock().await;
        if !known.marks.begun() {
            return Ok(());
        }
        if after == i64::MIN {
            known.marks.recheck_claims();
        }
        let taken =
            include(&mut known, &rows, None).and_then(|()| rows.last().map(|row| row.try_get(0)).transpose());
        drop(known);
        match taken.map_err(|error| crate::error::refusal(&error))? {
            Some(last) => after = last,
            None => return Ok(()),
        }
        pause(STEP_PAUSE).await;
    }
}
