//! What operators do to one event, and what they are told of circuits.

use std::collections::BTreeMap;

use futures_util::future::join3;
use posthaste_domain::{DeliveryStatus, Ending, EventId};
use posthaste_store::{CircuitReport, EventView, ManualAction, StoreError};
use tokio_postgres::types::Type;

use crate::Shared;
use crate::event::{BY_EVENT_ID, view};
use crate::moment::micros;
use crate::oldest::KEEP_LOW;
use crate::session::{Params, Sql};

/// Out of the endings, into the line at its end, with a fresh count of attempts.
static REQUEUE: Sql = Sql {
    text: "
WITH taken AS (
    DELETE FROM app.webhook_endings x
    USING app.webhook_events e
    WHERE e.event_id = $1 AND x.id = e.id AND x.failure_kind IS NOT NULL
    RETURNING x.*, e.destination_id
),
queued AS (
    INSERT INTO app.webhook_queue (
        id, destination_id, turn, next_attempt_at, last_attempted_at, claims, updated_at,
        manual_last_action, manual_last_actor, manual_last_at
    )
    SELECT id, destination_id, nextval('app.webhook_turn'), app.webhook_now(), last_attempted_at, claims,
           app.webhook_now(), $2, $3, app.webhook_now()
    FROM taken
),
oldest AS (
    UPDATE app.webhook_oldest o SET key = t.id FROM taken t WHERE o.key > t.id
),
counted AS (
    INSERT INTO app.webhook_counts (pending, failed) SELECT count(*), -count(*) FROM taken HAVING count(*) > 0
),
audited AS (
    INSERT INTO app.webhook_audit (event_key, action, actor, at)
    SELECT id, $2, $3, app.webhook_now() FROM taken
)
SELECT pg_notify('posthaste_due', '') FROM taken",
    types: &[Type::TEXT, Type::TEXT, Type::TEXT],
};

/// A pending event comes to its end; one that has failed keeps it, under another name.
static CANCEL: Sql = Sql {
    text: "
WITH pending AS (
    DELETE FROM app.webhook_queue q
    USING app.webhook_events e
    WHERE e.event_id = $1 AND q.id = e.id
    RETURNING q.*
),
ended AS (
    INSERT INTO app.webhook_endings (
        id, updated_at, last_attempted_at, attempts, claims, lost_leases, failure_kind, last_error,
        manual_last_action, manual_last_actor, manual_last_at, manual_last_reason
    )
    SELECT id, app.webhook_now(), last_attempted_at, attempts, claims, lost_leases, $4, $5,
           $2, $3, app.webhook_now(), $6
    FROM pending
),
failed AS (
    UPDATE app.webhook_endings x
    SET failure_kind = $4, last_error = $5, updated_at = app.webhook_now(),
        manual_last_action = $2, manual_last_actor = $3, manual_last_at = app.webhook_now(),
        manual_last_reason = $6
    FROM app.webhook_events e
    WHERE e.event_id = $1 AND x.id = e.id AND x.failure_kind IS NOT NULL
    RETURNING x.id
),
counted AS (
    INSERT INTO app.webhook_counts (pending, retrying, failed)
    SELECT -count(*), -count(*) FILTER (WHERE attempts > 0), count(*) FROM pending HAVING count(*) > 0
),
notices AS (
    INSERT INTO app.webhook_notices (at, event_keys, delivered, attempts)
    SELECT app.webhook_now(), array_agg(id), array_agg(false), array_agg(attempts) FROM pending HAVING count(*) > 0
),
changed AS (
    SELECT id FROM pending UNION ALL SELECT id FROM failed
),
audited AS (
    INSERT INTO app.webhook_audit (event_key, action, actor, at, reason)
    SELECT id, $2, $3, app.webhook_now(), $6 FROM changed
)
SELECT id FROM changed",
    types: &[Type::TEXT, Type::TEXT, Type::TEXT, Type::TEXT, Type::TEXT, Type::TEXT],
};

/// The last report of each destination stands.
static REPORT: Sql = Sql {
    text: "
UPDATE app.webhook_destinations d
SET circuit = r.state, circuit_until = app.webhook_now() + r.expires_us * interval '1 microsecond'
FROM unnest($1::bigint[], $2::text[], $3::bigint[]) AS r (destination_id, state, expires_us)
WHERE d.id = r.destination_id",
    types: &[Type::INT8_ARRAY, Type::TEXT_ARRAY, Type::INT8_ARRAY],
};

/// An event moves between two tables at most this often while one of these looks for it.
const TRIES: usize = 10;

pub(crate) async fn requeue(
    store: &Shared,
    event_id: &EventId,
    actor: &str,
) -> Result<EventView, StoreError> {
    let action = ManualAction::Requeue.as_str();
    let (changed, event) = act(store, event_id, &REQUEUE, &[&event_id.as_str(), &action, &actor]).await?;
    if !changed {
        return Err(StoreError::NotRequeueable { event_id: event_id.clone(), status: event.status });
    }
    store.waker.wake();
    Ok(event)
}

pub(crate) async fn cancel(
    store: &Shared,
    event_id: &EventId,
    actor: &str,
    reason: Option<&str>,
) -> Result<EventView, StoreError> {
    let ending = Ending::cancelled(reason);
    let (action, kind) = (ManualAction::Cancel.as_str(), ending.failure_kind().as_str());
    let params: Params<'_> =
        &[&event_id.as_str(), &action, &actor, &kind, &ending.last_error(), &ending.reason()];
    for _ in 0..TRIES {
        let (changed, event) = act(store, event_id, &CANCEL, params).await?;
        if changed {
            store.notices.unplaced();
            return Ok(event);
        }
        if event.status == DeliveryStatus::Delivered {
            return Err(StoreError::NotCancellable { event_id: event_id.clone(), status: event.status });
        }
        // It was on its way from one state to the next when we looked for it in both.
    }
    Err(StoreError::Unavailable {
        reason: format!("event {event_id} changes faster than it can be cancelled"),
    })
}

/// Carries out a statement and reads the event after it, in one transaction; tells whether anything was changed.
async fn act(
    store: &Shared,
    event_id: &EventId,
    sql: &Sql,
    params: Params<'_>,
) -> Result<(bool, EventView), StoreError> {
    let answer = store.sessions.operate.with(async |session| {
        let (keep_low, act, read) = (
            session.prepare(&KEEP_LOW).await?,
            session.prepare(sql).await?,
            session.prepare(&BY_EVENT_ID).await?,
        );
        let id = event_id.as_str();
        let (changed, rows) = session
            .transaction(async {
                let (kept, changed, rows) = join3(
                    session.send(&keep_low, &[]),
                    session.send(&act, params),
                    session.send(&read, &[&id]),
                )
                .await;
                kept?;
                Ok((!changed?.is_empty(), rows?))
            })
            .await?;
        Ok((changed, rows.first().map(view).transpose()?))
    });
    let (changed, event) = answer.await?;
    match event {
        Some(event) => Ok((changed, event)),
        None => Err(StoreError::EventNotFound { event_id: event_id.clone() }),
    }
}

pub(crate) async fn report_circuits(store: &Shared, reports: &[CircuitReport]) -> Result<(), StoreError> {
    let last: BTreeMap<i64, &CircuitReport> =
        reports.iter().map(|report| (report.destination.0, report)).collect();
    if last.is_empty() {
        return Ok(());
    }
    let destinations: Vec<i64> = last.keys().copied().collect();
    let states: Vec<&str> = last.values().map(|report| report.state.as_str()).collect();
    let expiries: Vec<i64> = last.values().map(|report| micros(report.expires_in)).collect();
    let report = async |session: &crate::session::Session| {
        session.transact(&REPORT, &[&destinations, &states, &expiries]).await
    };
    store.sessions.dispatch.with(report).await.map(drop)
}
