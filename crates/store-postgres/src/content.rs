//! Reading the payload of an event for an operator, whose look is recorded.

use bytes::Bytes;
use posthaste_domain::EventId;
use posthaste_store::{EventContent, ManualAction, StoreError};
use tokio_postgres::types::Type;

use crate::StoreState;
use crate::event::{EVENT_COLUMN_COUNT, event_columns, parse_event};
use crate::read;
use crate::registry::change;
use crate::replay::RECORD;
use crate::session::Sql;

/// Keeps the event $1 from being discarded until the transaction ends. Uses index webhook_events_event_id.
static SHARE: Sql = Sql {
    text: "SELECT e.id FROM app.webhook_events e WHERE e.event_id = $1 FOR KEY SHARE",
    types: &[Type::TEXT],
};

/// Reads the event $1 with the first $2 bytes of its payload and the size of all of it; both are NULL if the payload was removed.
/// Uses indexes webhook_events_id and webhook_messages_key.
static CONTENT: Sql = Sql {
    text: concat!(
        "SELECT ",
        event_columns!(),
        ", e.content_type, e.traceparent, substring(coalesce(e.payload, m.payload) FOR $2),
       octet_length(coalesce(e.payload, m.payload))
FROM app.webhook_outbox_events v
JOIN app.webhook_events e ON e.id = v.id
LEFT JOIN app.webhook_messages m ON m.key = e.message_key
WHERE v.id = $1"
    ),
    types: &[Type::INT8, Type::INT4],
};

/// Records that the actor looks at an event, and reads its content.
pub(crate) async fn event_content(
    store: &StoreState,
    event_id: &EventId,
    actor: &str,
    payload_bytes_max: usize,
) -> Result<EventContent, StoreError> {
    let bytes_max = i32::try_from(payload_bytes_max).unwrap_or(i32::MAX);
    let content = change(&store.sessions.operate, async |session| {
        let not_found = || StoreError::EventNotFound { event_id: event_id.clone() };
        let rows = session.query(&SHARE, &[&event_id.as_str()]).await?;
        let key: i64 = rows.first().ok_or_else(not_found)?.try_get(0)?;
        let rows = session.query(&CONTENT, &[&key, &bytes_max]).await?;
        let row = rows.first().ok_or_else(not_found)?;
        let own = |index| EVENT_COLUMN_COUNT + index;
        let (payload, bytes) =
            (row.try_get::<_, Option<&[u8]>>(own(2))?, row.try_get::<_, Option<i32>>(own(3))?);
        let (Some(payload), Some(bytes)) = (payload, bytes) else {
            return Err(StoreError::ContentRemoved { event_id: event_id.clone() }.into());
        };
        session.query(&RECORD, &[&key, &ManualAction::ViewContent.as_str(), &actor]).await?;
        Ok(EventContent {
            event: parse_event(row)?,
            content_type: row.try_get(own(0))?,
            traceparent: row.try_get(own(1))?,
            payload: Bytes::copy_from_slice(payload),
            payload_bytes: u64::try_from(bytes).unwrap_or(0),
        })
    });
    match content.await {
        Err(StoreError::EventNotFound { event_id }) => Err(read::explain_missing(store, &event_id).await),
        content => content,
    }
}
