//! Sending messages to an endpoint again, and adding events of messages that it missed.

use std::collections::HashSet;

use posthaste_domain::{ApplicationId, DestinationId, EndpointId, EndpointRef, EventId, MessageRef};
use posthaste_store::{ManualAction, StoreError};
use tokio_postgres::types::Type;

use super::{Call, find_enabled, find_message};
use crate::error::unavailable;
use crate::session::{Params, Session, Sql};

/// Attempts of an event that a resend adds.
const EXTRA_ATTEMPTS: i32 = 1;
/// How many ids of extra events are looked up at a time.
const IDS_STEP: u32 = 100;

/// Keeps the payload of a message from being removed until the transaction ends, and returns whether there is one. Uses index
/// webhook_messages_key.
static SHARE_MESSAGE: Sql = Sql {
    text: "SELECT m.payload IS NOT NULL FROM app.webhook_messages m WHERE m.key = $1 FOR SHARE",
    types: &[Type::INT8],
};

/// Keeps the order of the endpoints of the application $1 from changing until the transaction ends, as a publish does. The next
/// statement sees the order.
static SHARE_ORDER: Sql = Sql {
    text: "SELECT pg_current_xact_id() IS NULL FROM pg_advisory_xact_lock_shared(7527, hashint8($1))",
    types: &[Type::INT8],
};

static IS_FIFO: Sql =
    Sql { text: "SELECT d.is_fifo FROM app.webhook_destinations d WHERE d.id = $1", types: &[Type::INT8] };

/// Locks the line of an endpoint before keys are drawn for its events.
static LOCK_LINE: Sql = Sql {
    text: "SELECT l.destination_id FROM app.webhook_fifo_lines l WHERE l.destination_id = $1 FOR UPDATE",
    types: &[Type::INT8],
};

/// Lets one transaction at a time choose ids for extra events. $1 stands for the event. The next statement sees those that were
/// chosen.
static LOCK_RUNS: Sql = Sql {
    text: "SELECT pg_advisory_xact_lock(lock) IS NULL FROM (SELECT hashtextextended('runs of ' || $1, 7526) AS lock) l",
    types: &[Type::TEXT],
};

/// Reads which event ids are taken, and whether such an event has failed. Uses indexes webhook_events_event_id,
/// webhook_failures_id and webhook_discarded_events_event_id.
static TAKEN: Sql = Sql {
    text: "
SELECT i.id, f.id IS NOT NULL, e.id
FROM unnest($1::text[]) AS i (id)
LEFT JOIN app.webhook_events e ON e.event_id = i.id
LEFT JOIN app.webhook_failures f ON f.id = e.id
WHERE e.id IS NOT NULL OR EXISTS (SELECT FROM app.webhook_discarded_events d WHERE d.event_id = i.id)",
    types: &[Type::TEXT_ARRAY],
};

/// Moves failed events to the end of the queue, due now and with their attempts reset. Returns the keys of those that were failed.
static REOPEN: Sql = Sql {
    text: "
WITH failed AS MATERIALIZED (
    SELECT f.id FROM app.webhook_failures f WHERE f.id = ANY ($1) ORDER BY f.id FOR UPDATE
),
reopened AS (
    DELETE FROM app.webhook_failures f
    USING failed x, app.webhook_events e
    WHERE f.id = x.id AND e.id = x.id
    RETURNING f.*, app.webhook_payload_bytes(e.payload, e.message_key) AS payload_bytes
),
queued AS (
    INSERT INTO app.webhook_queue (
        id, destination_id, queue_position, next_attempt_at, payload_bytes, is_fifo, last_attempted_at, requeued_at, claims,
        updated_at
    )
    SELECT r.id, r.destination_id, app.webhook_next_event_key(), app.webhook_now(), r.payload_bytes,
           (SELECT d.is_fifo FROM app.webhook_destinations d WHERE d.id = r.destination_id), r.last_attempted_at,
           app.webhook_now(), r.claims, app.webhook_now()
    FROM reopened r
),
watermark AS (
    UPDATE app.webhook_pending_watermark w
    SET min_key = r.id
    FROM (SELECT min(id) AS id FROM reopened) r
    WHERE w.min_key > r.id
),
counts AS (
    INSERT INTO app.webhook_counts (pending, failed, cancelled)
    SELECT count(*), -count(*), -count(*) FILTER (WHERE failure_kind = 'cancelled') FROM reopened HAVING count(*) > 0
),
audit AS (
    INSERT INTO app.webhook_audit (event_key, action, actor, at)
    SELECT id, $2, $3, app.webhook_now() FROM reopened
)
SELECT id FROM reopened",
    types: &[Type::INT8_ARRAY, Type::TEXT, Type::TEXT],
};

/// Adds events of the messages $1 with the ids $2 to the endpoint $3. With an actor ($5), they are due now, have $4 attempts, and
/// the audit log records the action $7 under the key $9; otherwise they are like those of a publish. They replay the event $8, if it
/// is not NULL. Skips events whose ids are taken. Returns their keys.
static ADD_EVENTS: Sql = Sql {
    text: "
WITH keyed AS MATERIALIZED (
    SELECT app.webhook_next_event_key() AS id, m.*
    FROM (
        SELECT m.key, m.id AS message_id, m.app_id, i.event_id, m.event_type, m.content_type, m.payment_request_id, m.session_id,
               m.traceparent, m.stored_by, m.payload_bytes, coalesce($4, m.max_attempts) AS max_attempts,
               CASE WHEN m.deliver_at > app.webhook_now() THEN m.deliver_at END AS deliver_at
        FROM unnest($1::bigint[], $2::text[]) WITH ORDINALITY AS i (key, event_id, n)
        JOIN app.webhook_messages m ON m.key = i.key AND m.payload IS NOT NULL
        WHERE NOT EXISTS (SELECT FROM app.webhook_events e WHERE e.event_id = i.event_id)
        ORDER BY i.n
    ) m
),
events AS (
    INSERT INTO app.webhook_events (
        id, app_id, destination_id, created_at, message_id, max_attempts, event_id, event_type, content_type, webhook_id,
        payment_request_id, session_id, traceparent, stored_by, message_key, deliver_at, replay_of
    )
    SELECT k.id, k.app_id, $3, app.webhook_now(), k.message_id, k.max_attempts, k.event_id, k.event_type, k.content_type, $6,
           k.payment_request_id, k.session_id, k.traceparent, k.stored_by, k.key, k.deliver_at, $8
    FROM keyed k
),
queue AS (
    INSERT INTO app.webhook_queue (
        id, destination_id, queue_position, next_attempt_at, payload_bytes, is_fifo, requeued_at, updated_at
    )
    SELECT k.id, $3,
           CASE WHEN $5::text IS NULL THEN coalesce(app.webhook_retry_position(k.deliver_at), k.id) ELSE k.id END,
           CASE WHEN $5 IS NULL THEN coalesce(k.deliver_at, app.webhook_now()) ELSE app.webhook_now() END, k.payload_bytes,
           d.is_fifo, CASE WHEN $5 IS NOT NULL THEN app.webhook_now() END, app.webhook_now()
    FROM keyed k
    JOIN app.webhook_destinations d ON d.id = $3
),
counts AS (
    INSERT INTO app.webhook_counts (pending) SELECT count(*) FROM keyed HAVING count(*) > 0
),
audit AS (
    INSERT INTO app.webhook_audit (event_key, action, actor, at, operation_key)
    SELECT k.id, $7, $5, app.webhook_now(), $9 FROM keyed k WHERE $5 IS NOT NULL
)
SELECT id FROM keyed",
    types: &[
        Type::INT8_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT8,
        Type::INT4,
        Type::TEXT,
        Type::TEXT,
        Type::TEXT,
        Type::TEXT,
        Type::TEXT,
    ],
};

/// Sends a message to an endpoint again. Returns the event that is sent.
pub(super) async fn resend(
    session: &Session,
    app: ApplicationId,
    message: &MessageRef,
    endpoint: &EndpointRef,
    actor: &str,
) -> Call<EventId> {
    let found = find_message(session, app, message).await?;
    let destination = find_enabled(session, app, endpoint).await?;
    match share_message(session, found.key).await? {
        Some(true) => {}
        Some(false) => return Err(StoreError::PayloadExpunged { message: message.to_string() }.into()),
        None => return Err(StoreError::MessageNotFound { message: message.to_string() }.into()),
    }
    // The locks are taken in the order in which a replay takes them.
    let first = EventId::of_fan_out(found.id, destination);
    lock_runs(session, &first).await?;
    lock_line(session, app, destination).await?;
    let event_id = match find_taken(session, &first).await? {
        None => first,
        Some(TakenId::Failed(key)) if reopen(session, &[key], ManualAction::Resend, actor).await? > 0 => {
            return Ok(first);
        }
        Some(_) => next_run(session, &first).await?,
    };
    let extra = Extra { actor, action: ManualAction::Resend, operation_key: None, replay_of: None };
    add_events(session, destination, &[found.key], &[event_id.as_str()], Some(extra)).await?;
    Ok(event_id)
}

/// Keeps the payload of a message from being removed, and returns whether there is one. `None` if there is no message.
async fn share_message(session: &Session, key: i64) -> Call<Option<bool>> {
    let rows = session.query(&SHARE_MESSAGE, &[&key]).await?;
    Ok(rows.first().map(|row| row.try_get(0)).transpose()?)
}

/// Returns the first id of an extra event that no event has or had. No other transaction gets it before this one ends.
pub(crate) async fn free_run(session: &Session, first: &EventId) -> Call<EventId> {
    lock_runs(session, first).await?;
    next_run(session, first).await
}

/// Waits until no other transaction chooses ids for extra events of this event. Long ids with the same beginning have the same extra
/// ids.
async fn lock_runs(session: &Session, first: &EventId) -> Call<()> {
    session.query(&LOCK_RUNS, &[&first.with_run(0).as_str()]).await?;
    Ok(())
}

async fn next_run(session: &Session, first: &EventId) -> Call<EventId> {
    let mut start = 1;
    loop {
        let runs: Vec<EventId> = (start..start + IDS_STEP).map(|run| first.with_run(run)).collect();
        let ids: Vec<&str> = runs.iter().map(EventId::as_str).collect();
        let rows = session.query(&TAKEN, &[&ids]).await?;
        let taken = rows.iter().map(|row| row.try_get(0)).collect::<Result<HashSet<&str>, _>>()?;
        if let Some(free) = runs.iter().find(|run| !taken.contains(run.as_str())) {
            return Ok(free.clone());
        }
        start += IDS_STEP;
    }
}

/// Adds an event that sends the message of a delivered event of an endpoint once more. Returns false if the payload of the message
/// was removed.
pub(crate) async fn add_replay(
    session: &Session,
    app: ApplicationId,
    endpoint: EndpointId,
    message_key: i64,
    event_id: &EventId,
    extra: Extra<'_>,
) -> Call<bool> {
    let destination = find_enabled(session, app, &endpoint.into()).await?;
    if share_message(session, message_key).await? != Some(true) {
        return Ok(false);
    }
    lock_line(session, app, destination).await?;
    if add_events(session, destination, &[message_key], &[event_id.as_str()], Some(extra)).await? == 0 {
        return Err(unavailable(format!("another event took the id {event_id}")).into());
    }
    Ok(true)
}

/// An event id that cannot be used for a new event.
enum TakenId {
    /// Of a failed event.
    Failed(i64),
    Other,
}

async fn find_taken(session: &Session, event_id: &EventId) -> Call<Option<TakenId>> {
    let rows = session.query(&TAKEN, &[&vec![event_id.as_str()]]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(Some(match (row.try_get(1)?, row.try_get(2)?) {
        (true, Some(key)) => TakenId::Failed(key),
        _ => TakenId::Other,
    }))
}

/// Prepares for adding events to an endpoint: keeps its order from changing, and locks its line if it is in FIFO order.
pub(super) async fn lock_line(session: &Session, app: ApplicationId, id: DestinationId) -> Call<()> {
    session.query(&SHARE_ORDER, &[&app.0]).await?;
    let rows = session.query(&IS_FIFO, &[&id.0]).await?;
    let is_fifo = rows.first().map(|row| row.try_get::<_, Option<bool>>(0)).transpose()?.flatten();
    if is_fifo == Some(true) {
        session.query(&LOCK_LINE, &[&id.0]).await?;
    }
    Ok(())
}

/// Reopens failed events. Returns how many were failed.
pub(crate) async fn reopen(
    session: &Session,
    keys: &[i64],
    action: ManualAction,
    actor: &str,
) -> Call<usize> {
    session.query(&crate::watermark::LOCK_WATERMARK_SHARED, &[]).await?;
    Ok(session.query(&REOPEN, &[&keys, &action.as_str(), &actor]).await?.len())
}

/// What an event that a resend or a replay adds has beside its message.
pub(crate) struct Extra<'a> {
    pub(crate) actor: &'a str,
    pub(crate) action: ManualAction,
    pub(crate) operation_key: Option<&'a str>,
    pub(crate) replay_of: Option<&'a str>,
}

/// Adds events of messages to an endpoint. Returns how many it added.
pub(super) async fn add_events(
    session: &Session,
    destination: DestinationId,
    messages: &[i64],
    event_ids: &[&str],
    extra: Option<Extra<'_>>,
) -> Call<usize> {
    let extra = extra.as_ref();
    let params: Params<'_> = &[
        &messages,
        &event_ids,
        &destination.0,
        &extra.map(|_| EXTRA_ATTEMPTS),
        &extra.map(|it| it.actor),
        &EndpointId(destination).to_string(),
        &extra.map(|it| it.action.as_str()),
        &extra.and_then(|it| it.replay_of),
        &extra.and_then(|it| it.operation_key),
    ];
    let added = session.query(&ADD_EVENTS, params).await?;
    Ok(added.len())
}
