//! Reads for operators: the overview, store health, one event. None of them reads a payload.

use std::time::Duration;

use futures_util::future::join3;
use posthaste_domain::{ErrorClass, EventId, EventKey, Excerpt, Trigger, WorkerId};
use posthaste_store::{
    AttemptView, AuditView, EventDetail, HELD_COUNT_MAX, ManualAction, Overview, PendingCount, StoreError,
    StoreHealth,
};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::StoreState;
use crate::convert::{PgTimestamp, lease_token, unsigned};
use crate::error::store_error;
use crate::event::{SELECT_EVENT, parse_event};
use crate::migrate::supported_schema_version;
use crate::session::Sql;

/// Reads the stored counts by state, and counts the two states that depend on time: retries that are not due yet
/// (webhook_queue_position) and events under a live lease (webhook_claims, then the queue by key). The oldest pending
/// event is the first row of webhook_queue_id from the watermark on.
///
/// Events held by pauses (webhook_destinations_paused) and circuits (webhook_circuits_expires_at) are counted up to $1
/// (webhook_queue_destination_position).
pub(crate) static OVERVIEW: Sql = Sql {
    text: "
WITH held_destinations AS MATERIALIZED (
    SELECT d.id FROM app.webhook_destinations d WHERE d.paused_until > app.webhook_now()
    UNION
    SELECT c.destination_id FROM app.webhook_circuits c WHERE c.expires_at > app.webhook_now()
),
held AS MATERIALIZED (
    SELECT count(*) AS counted, min(q.id) AS oldest
    FROM (
        SELECT q.id
        FROM held_destinations d
        CROSS JOIN LATERAL (
            SELECT q.id
            FROM app.webhook_queue q
            WHERE q.destination_id = d.id AND q.queue_position >= (SELECT w.min_key FROM app.webhook_pending_watermark w)
                  AND q.lease_until IS NULL
            LIMIT $1
        ) q
        LIMIT $1
    ) q
)
SELECT c.pending, c.retrying, c.delivered, c.failed,
       (SELECT count(*)
        FROM app.webhook_queue q
        WHERE q.queue_position > app.webhook_retry_position(app.webhook_now()) AND q.queue_position <> q.id),
       (SELECT count(*)
        FROM app.webhook_claims l
        CROSS JOIN LATERAL unnest(l.event_keys) AS k (key)
        JOIN app.webhook_queue q ON q.id = k.key AND q.lease_claim = l.id
        WHERE q.lease_until > app.webhook_now()),
       (SELECT e.created_at
        FROM app.webhook_queue q
        JOIN app.webhook_events e ON e.id = q.id
        WHERE q.id >= (SELECT w.min_key FROM app.webhook_pending_watermark w)
        ORDER BY q.id
        LIMIT 1),
       app.webhook_now(), c.cancelled, h.counted, e.created_at
FROM held h
LEFT JOIN app.webhook_events e ON e.id = h.oldest
CROSS JOIN (
    SELECT coalesce(sum(pending), 0)::bigint AS pending, coalesce(sum(retrying), 0)::bigint AS retrying,
           coalesce(sum(delivered), 0)::bigint AS delivered, coalesce(sum(failed), 0)::bigint AS failed,
           coalesce(sum(cancelled), 0)::bigint AS cancelled
    FROM app.webhook_counts
) c",
    types: &[Type::INT8],
};

/// Reads the server's clock and the schema version, which a newer Posthaste may have raised.
pub(crate) static HEALTH: Sql =
    Sql { text: "SELECT app.webhook_now(), (SELECT max(version) FROM app.webhook_migrations)", types: &[] };

/// Reads the attempts of an event, oldest first. Uses index webhook_attempts_event, in every partition.
static ATTEMPT_HISTORY: Sql = Sql {
    text: "
SELECT a.lease_claim, a.attempt, a.trigger, a.started_at, a.duration_us, a.http_status, a.error_class, a.excerpt, a.worker_id,
       a.applied, a.event_key
FROM app.webhook_attempts a
WHERE a.event_key = (SELECT e.id FROM app.webhook_events e WHERE e.event_id = $1)
ORDER BY a.recorded_at, a.attempt",
    types: &[Type::TEXT],
};

/// Reads the operator actions on an event, oldest first. Uses index webhook_audit_event.
static AUDIT_LOG: Sql = Sql {
    text: "
SELECT a.action, a.actor, a.at, a.reason
FROM app.webhook_audit a
WHERE a.event_key = (SELECT e.id FROM app.webhook_events e WHERE e.event_id = $1)
ORDER BY a.id",
    types: &[Type::TEXT],
};

/// Reads the audit entry of a discard, which is the last action on its event. Uses indexes
/// webhook_discarded_events_event_id and webhook_audit_event.
static DISCARD_ENTRY: Sql = Sql {
    text: "
SELECT a.action, a.actor, a.at, a.reason
FROM app.webhook_discarded_events d
JOIN app.webhook_audit a ON a.event_key = d.id AND a.action = 'discard'
WHERE d.event_id = $1
ORDER BY a.id DESC
LIMIT 1",
    types: &[Type::TEXT],
};

pub(crate) async fn health(store: &StoreState) -> Result<StoreHealth, StoreError> {
    let rows = store.sessions.operate.with(async |session| session.query(&HEALTH, &[]).await).await?;
    parse_health(&rows[0]).map_err(|error| store_error(&error))
}

/// Parses the row of [`HEALTH`].
pub(crate) fn parse_health(row: &Row) -> Result<StoreHealth, tokio_postgres::Error> {
    let (now, schema): (PgTimestamp, i32) = (row.try_get(0)?, row.try_get(1)?);
    Ok(StoreHealth { now: now.0, schema: schema.into(), schema_supported: supported_schema_version().into() })
}

pub(crate) async fn overview(store: &StoreState) -> Result<Overview, StoreError> {
    let overview = store.sessions.operate.with(async |session| {
        let held_max = i64::try_from(HELD_COUNT_MAX).unwrap_or(i64::MAX).saturating_add(1);
        let rows = session.transact(&OVERVIEW, &[&held_max]).await?;
        let row = rows.first().expect("the statement returns one row");
        let number =
            |index| Ok::<_, tokio_postgres::Error>(u64::try_from(row.try_get::<_, i64>(index)?).unwrap_or(0));
        let pending = number(0)?;
        let (not_due, leased) = (number(4)?, number(5)?);
        let oldest: Option<PgTimestamp> = row.try_get(6)?;
        let now: PgTimestamp = row.try_get(7)?;
        let oldest_held: Option<PgTimestamp> = row.try_get(10)?;
        let held_age = oldest_held.map(|oldest| now.0.since(oldest.0));
        Ok(Overview {
            pending,
            pending_ready: pending.saturating_sub(not_due).saturating_sub(leased),
            retrying: number(1)?,
            failed: number(3)?,
            cancelled: number(8)?,
            delivered: number(2)?,
            held: PendingCount::of(number(9)?, HELD_COUNT_MAX, held_age),
            oldest_pending_age: oldest.map(|oldest| now.0.since(oldest.0)),
        })
    });
    overview.await
}

/// Reads one event with its attempts and operator actions, all from one snapshot.
pub(crate) async fn event(store: &StoreState, event_id: &EventId) -> Result<EventDetail, StoreError> {
    let detail = store.sessions.operate.with(async |session| {
        let (event, history, audit) = (
            session.prepare(&SELECT_EVENT).await?,
            session.prepare(&ATTEMPT_HISTORY).await?,
            session.prepare(&AUDIT_LOG).await?,
        );
        let id = event_id.as_str();
        let (event, history, audit) = session
            .snapshot(async {
                let (event, history, audit) = join3(
                    session.send(&event, &[&id]),
                    session.send(&history, &[&id]),
                    session.send(&audit, &[&id]),
                )
                .await;
                Ok((event?, history?, audit?))
            })
            .await?;
        let Some(event) = event.first() else { return Ok(None) };
        Ok(Some(EventDetail {
            event: parse_event(event)?,
            history: history.iter().map(parse_attempt).collect::<Result<_, _>>()?,
            audit: audit.iter().map(parse_audit).collect::<Result<_, _>>()?,
        }))
    });
    match detail.await? {
        Some(detail) => Ok(detail),
        None => Err(explain_missing(store, event_id).await),
    }
}

/// Returns the error for an event that does not exist: an operator discarded it, its id is unknown, or the store fails.
pub(crate) async fn explain_missing(store: &StoreState, event_id: &EventId) -> StoreError {
    let id = event_id.as_str();
    let discard = store.sessions.operate.with(async |session| {
        session.transact(&DISCARD_ENTRY, &[&id]).await?.first().map(parse_audit).transpose()
    });
    let event_id = event_id.clone();
    match discard.await {
        Ok(Some(discard)) => StoreError::EventDiscarded { event_id, discard },
        Ok(None) => StoreError::EventNotFound { event_id },
        Err(error) => error,
    }
}

/// Parses a row of [`ATTEMPT_HISTORY`].
pub(crate) fn parse_attempt(row: &Row) -> Result<AttemptView, tokio_postgres::Error> {
    let duration_us: i64 = row.try_get(4)?;
    Ok(AttemptView {
        token: lease_token(row.try_get(0)?, EventKey(row.try_get(10)?)),
        attempt: unsigned(row.try_get(1)?),
        trigger: Trigger::from_name(row.try_get(2)?).unwrap_or(Trigger::Scheduled),
        started_at: row.try_get::<_, PgTimestamp>(3)?.0,
        duration: Duration::from_micros(u64::try_from(duration_us).unwrap_or(0)),
        http_status: row.try_get::<_, Option<i16>>(5)?.and_then(|status| u16::try_from(status).ok()),
        error_class: row.try_get::<_, Option<&str>>(6)?.and_then(ErrorClass::from_name),
        excerpt: Excerpt::from_stored(row.try_get(7)?),
        worker: WorkerId::from_stored(row.try_get(8)?),
        applied: row.try_get(9)?,
    })
}

/// Parses a row of [`AUDIT_LOG`].
fn parse_audit(row: &Row) -> Result<AuditView, tokio_postgres::Error> {
    Ok(AuditView {
        action: ManualAction::from_name(row.try_get(0)?).unwrap_or(ManualAction::Requeue),
        actor: row.try_get(1)?,
        at: row.try_get::<_, PgTimestamp>(2)?.0,
        reason: row.try_get(3)?,
    })
}
