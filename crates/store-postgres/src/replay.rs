//! Sending a delivered event once more.

use posthaste_domain::{DeliveryStatus, EndpointId, EventId};
use posthaste_store::{ActionRequest, EventView, ManualAction, StoreError};
use tokio_postgres::types::Type;

use crate::StoreState;
use crate::event::{SELECT_EVENT, parse_event};
use crate::operation::repeat_if_unavailable;
use crate::operation::{LOCK_OPERATION, RECORDED_ACTION, operation_key, parse_recorded_action};
use crate::read;
use crate::registry::{Call, Extra, add_replay, change, free_run};
use crate::session::{Session, Sql};

/// Keeps an event from being removed until the transaction ends, and returns the key of its message. Uses index
/// webhook_events_id.
static SHARE_EVENT: Sql = Sql {
    text: "SELECT e.message_key FROM app.webhook_events e WHERE e.id = $1 FOR KEY SHARE",
    types: &[Type::INT8],
};

/// Adds a copy of the event $1, which was enqueued to a URL, with the id $2, one attempt, and due now. The audit log records the
/// action $3 of $4 under the key $5. The copy replays the event $6.
static ADD_COPY: Sql = Sql {
    text: "
WITH original AS MATERIALIZED (
    SELECT app.webhook_next_event_key() AS new_id, e.* FROM app.webhook_events e WHERE e.id = $1
),
events AS (
    INSERT INTO app.webhook_events (
        id, destination_id, created_at, message_id, max_attempts, event_id, event_type, content_type, webhook_id,
        payment_request_id, session_id, traceparent, stored_by, replay_of, payload
    )
    SELECT o.new_id, o.destination_id, app.webhook_now(), o.message_id, 1, $2, o.event_type, o.content_type, o.webhook_id,
           o.payment_request_id, o.session_id, o.traceparent, o.stored_by, $6, o.payload
    FROM original o
),
queue AS (
    INSERT INTO app.webhook_queue (
        id, destination_id, queue_position, next_attempt_at, payload_bytes, requeued_at, updated_at
    )
    SELECT o.new_id, o.destination_id, o.new_id, app.webhook_now(), coalesce(octet_length(o.payload), 0), app.webhook_now(),
           app.webhook_now()
    FROM original o
),
counts AS (
    INSERT INTO app.webhook_counts (pending) SELECT count(*) FROM original HAVING count(*) > 0
)
INSERT INTO app.webhook_audit (event_key, action, actor, at, operation_key)
SELECT o.new_id, $3, $4, app.webhook_now(), $5 FROM original o",
    types: &[Type::INT8, Type::TEXT, Type::TEXT, Type::TEXT, Type::TEXT, Type::TEXT],
};

/// Records the action $2 of $3 on the event $1.
pub(crate) static RECORD: Sql = Sql {
    text: "INSERT INTO app.webhook_audit (event_key, action, actor, at) VALUES ($1, $2, $3, app.webhook_now())",
    types: &[Type::INT8, Type::TEXT, Type::TEXT],
};

/// Sends a delivered event once more.
pub(crate) async fn replay(
    store: &StoreState,
    event_id: &EventId,
    request: ActionRequest<'_>,
) -> Result<EventView, StoreError> {
    let key = operation_key(request);
    let pool = &store.sessions.operate;
    let replayed = repeat_if_unavailable(|| {
        change(pool, async |session| try_replay(session, event_id, request.actor, &key).await)
    });
    match replayed.await {
        Ok(added) => {
            store.blocked.release(std::iter::once(added.destination_id));
            store.wake_after_enqueue();
            Ok(added)
        }
        Err(StoreError::EventNotFound { event_id }) => Err(read::explain_missing(store, &event_id).await),
        Err(error) => Err(error),
    }
}

async fn try_replay(session: &Session, event_id: &EventId, actor: &str, key: &str) -> Call<EventView> {
    session.query(&LOCK_OPERATION, &[&key]).await?;
    let recorded = parse_recorded_action(&session.query(&RECORDED_ACTION, &[&key]).await?)?;
    let original = find(session, event_id).await?;
    let first = original.first_event_id();
    if let Some(recorded) = recorded {
        let added = find(session, &recorded.event_id).await?;
        return Ok(recorded.require_replay_of(first, added, key)?);
    }
    if original.status != DeliveryStatus::Delivered {
        let status = original.status;
        return Err(StoreError::NotReplayable { event_id: event_id.clone(), status }.into());
    }
    let shared = session.query(&SHARE_EVENT, &[&original.key.0]).await?;
    let not_found = || StoreError::EventNotFound { event_id: event_id.clone() };
    let message_key: Option<i64> = shared.first().ok_or_else(not_found)?.try_get(0)?;
    let new_id = free_run(session, first).await?;
    let action = ManualAction::Replay;
    match (original.app, message_key) {
        (Some(app), Some(message_key)) => {
            let extra = Extra { actor, action, operation_key: Some(key), replay_of: Some(first.as_str()) };
            let endpoint = EndpointId(original.destination_id);
            if !add_replay(session, app, endpoint, message_key, &new_id, extra).await? {
                return Err(StoreError::ContentRemoved { event_id: event_id.clone() }.into());
            }
        }
        _ => {
            let (name, first) = (action.as_str(), first.as_str());
            let params: [&(dyn tokio_postgres::types::ToSql + Sync); 6] =
                [&original.key.0, &new_id.as_str(), &name, &actor, &key, &first];
            session.query(&ADD_COPY, &params).await?;
        }
    }
    session.query(&RECORD, &[&original.key.0, &action.as_str(), &actor]).await?;
    find(session, &new_id).await
}

async fn find(session: &Session, event_id: &EventId) -> Call<EventView> {
    let rows = session.query(&SELECT_EVENT, &[&event_id.as_str()]).await?;
    let row = rows.first().ok_or_else(|| StoreError::EventNotFound { event_id: event_id.clone() })?;
    Ok(parse_event(row)?)
}
