//! Steps of background operations: each examines some rows and stays within the rate of its operation.

use std::collections::BTreeSet;
use std::time::Duration;

use posthaste_domain::{Channel, EventId, EventTypeName, FailureKind, MessageId, OperationId, Timestamp};
use posthaste_store::{Advance, ManualAction, Operation, OperationKind, OperationState, StoreError};
use tokio_postgres::types::Type;

use super::operation::{operation_columns, parse};
use super::{Call, change, endpoint, resend};
use crate::StoreState;
use crate::convert::PgTimestamp;
use crate::session::{Session, Sql};

/// When a worker asks again for an operation that another worker is advancing.
const RETRY_IN: Duration = Duration::from_secs(1);

/// Reads the running operations. Uses index webhook_operations_running.
static RUNNING: Sql = Sql {
    text: "SELECT o.id FROM app.webhook_operations o WHERE o.state = 'running' ORDER BY o.id",
    types: &[],
};

/// Locks a running operation, unless another worker is advancing it. Returns also its cursor, how far its rate is spent, and the
/// clock.
static LOCK: Sql = Sql {
    text: concat!(
        "SELECT ",
        operation_columns!(),
        ", o.cursor_key, o.spent_until, app.webhook_now()
         FROM app.webhook_operations o WHERE o.id = $1 AND o.state = 'running' FOR UPDATE SKIP LOCKED"
    ),
    types: &[Type::INT8],
};

/// Records a step of an operation.
static RECORD: Sql = Sql {
    text: "
UPDATE app.webhook_operations o
SET state = $2, cursor_key = $3, examined_count = $4, done_count = $5,
    spent_until = timestamptz 'epoch' + $6 * interval '1 microsecond', updated_at = app.webhook_now()
WHERE o.id = $1",
    types: &[Type::INT8, Type::TEXT, Type::INT8, Type::INT8, Type::INT8, Type::INT8],
};

/// Reads up to $3 events of the endpoint $1 after the key $2. Uses indexes webhook_events_destination and webhook_failures_id.
static EVENTS: Sql = Sql {
    text: "
SELECT e.id, e.created_at, f.failure_kind
FROM app.webhook_events e
LEFT JOIN app.webhook_failures f ON f.id = e.id
WHERE e.destination_id = $1 AND e.id > $2
ORDER BY e.id
LIMIT $3",
    types: &[Type::INT8, Type::INT8, Type::INT8],
};

/// Reads up to $3 messages of the application $1 after the key $2, with whether the endpoint $4 has its first event of each. Uses
/// indexes webhook_messages_app, webhook_events_event_id and webhook_discarded_events_event_id.
static MESSAGES: Sql = Sql {
    text: "
SELECT m.key, m.id, m.created_at, m.event_type, m.channels,
       m.payload IS NOT NULL
       AND NOT EXISTS (SELECT FROM app.webhook_events e
                       WHERE e.event_id = 'msg_' || replace(m.id::text, '-', '') || '-' || $4::bigint)
       AND NOT EXISTS (SELECT FROM app.webhook_discarded_events d
                       WHERE d.event_id = 'msg_' || replace(m.id::text, '-', '') || '-' || $4::bigint)
FROM app.webhook_messages m
WHERE m.app_id = $1 AND m.key > $2
ORDER BY m.key
LIMIT $3",
    types: &[Type::INT8, Type::INT8, Type::INT8, Type::INT8],
};

/// Keeps the payloads of messages from being removed until the transaction ends. Uses index webhook_messages_key.
static SHARE_MESSAGES: Sql = Sql {
    text: "SELECT m.key FROM app.webhook_messages m WHERE m.key = ANY ($1) ORDER BY m.key FOR SHARE",
    types: &[Type::INT8_ARRAY],
};

/// Runs one step of each running operation.
pub(super) async fn advance(store: &StoreState, rows_max: usize) -> Result<Advance, StoreError> {
    let pool = &store.sessions.operate;
    let running = pool.with(async |session| {
        let rows = session.query(&RUNNING, &[]).await?;
        rows.iter().map(|row| Ok(OperationId(row.try_get(0)?))).collect::<Result<Vec<_>, _>>()
    });
    let mut advance = Advance::default();
    for id in running.await? {
        advance.add(change(pool, async |session| step(session, id, rows_max).await).await?);
    }
    Ok(advance)
}

/// A row that a step examines.
struct Examined {
    key: i64,
    /// Whether the operation reopens the event, or adds an event of the message.
    is_due: bool,
    message: Option<MessageId>,
}

async fn step(session: &Session, id: OperationId, rows_max: usize) -> Call<Advance> {
    let rows = session.query(&LOCK, &[&id.0]).await?;
    let Some(row) = rows.first() else {
        return Ok(Advance { done: 0, next_in: Some(RETRY_IN) });
    };
    let mut operation = parse(row)?;
    let mut cursor: i64 = row.try_get(13)?;
    let spent_until = row.try_get::<_, Option<PgTimestamp>>(14)?.map(|PgTimestamp(at)| at);
    let now = row.try_get::<_, PgTimestamp>(15)?.0;
    let available = operation.rate.available(spent_until, now);
    let examined = match operation.kind {
        OperationKind::Recover => examine_events(session, &operation, cursor, rows_max).await?,
        OperationKind::ReplayMissing => examine_messages(session, &operation, cursor, rows_max).await?,
    };
    let is_last = examined.len() < rows_max;
    let mut due: Vec<&Examined> = Vec::new();
    let mut is_out_of_rate = false;
    for row in &examined {
        if row.is_due && due.len() == available {
            is_out_of_rate = true;
            break;
        }
        due.extend(Some(row).filter(|row| row.is_due));
        operation.examined_count += 1;
        cursor = row.key;
    }
    let done = apply(session, &operation, &due).await?;
    operation.done_count += u64::try_from(done).unwrap_or(0);
    if is_last && !is_out_of_rate {
        operation.state = OperationState::Finished;
    }
    let spent_until = operation.rate.spend(spent_until, now, done);
    record(session, &operation, cursor, spent_until).await?;
    let is_running = operation.state == OperationState::Running;
    let next_in = is_running.then(|| operation.rate.next_at(Some(spent_until), now).since(now));
    Ok(Advance { done, next_in })
}

async fn record(session: &Session, operation: &Operation, cursor: i64, spent_until: Timestamp) -> Call<()> {
    let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    session
        .query(
            &RECORD,
            &[
                &operation.id.0,
                &operation.state.as_str(),
                &cursor,
                &count(operation.examined_count),
                &count(operation.done_count),
                &spent_until.as_micros(),
            ],
        )
        .await?;
    Ok(())
}

fn rows_to_read(rows_max: usize) -> i64 {
    i64::try_from(rows_max).unwrap_or(i64::MAX)
}

async fn examine_events(
    session: &Session,
    operation: &Operation,
    cursor: i64,
    rows_max: usize,
) -> Call<Vec<Examined>> {
    let params: crate::session::Params<'_> = &[&operation.endpoint.0.0, &cursor, &rows_to_read(rows_max)];
    let mut examined = Vec::new();
    for row in session.query(&EVENTS, params).await? {
        let created_at = row.try_get::<_, PgTimestamp>(1)?.0;
        let kind = row.try_get::<_, Option<&str>>(2)?;
        let is_failed = kind.is_some_and(|kind| kind != FailureKind::Cancelled.as_str());
        let is_due = is_failed && (operation.since..=operation.until).contains(&created_at);
        examined.push(Examined { key: row.try_get(0)?, is_due, message: None });
    }
    Ok(examined)
}

async fn examine_messages(
    session: &Session,
    operation: &Operation,
    cursor: i64,
    rows_max: usize,
) -> Call<Vec<Examined>> {
    let endpoint = endpoint::select(session, operation.endpoint.0).await?;
    let params: crate::session::Params<'_> =
        &[&operation.app.0, &cursor, &rows_to_read(rows_max), &endpoint.destination().0];
    let mut examined = Vec::new();
    for row in session.query(&MESSAGES, params).await? {
        let created_at = row.try_get::<_, PgTimestamp>(2)?.0;
        let event_type = EventTypeName::from_stored(row.try_get(3)?);
        let channels = row.try_get::<_, Option<Vec<String>>>(4)?.unwrap_or_default();
        let channels: BTreeSet<Channel> = channels.into_iter().map(Channel::from_stored).collect();
        let is_due = row.try_get(5)?
            && (operation.since..=operation.until).contains(&created_at)
            && endpoint.subscription.matches(&event_type, &channels);
        let message = Some(MessageId::from_uuid(row.try_get(1)?));
        examined.push(Examined { key: row.try_get(0)?, is_due, message });
    }
    Ok(examined)
}

/// Reopens events, or adds the missing events of messages. Returns how many.
async fn apply(session: &Session, operation: &Operation, due: &[&Examined]) -> Call<usize> {
    if due.is_empty() {
        return Ok(0);
    }
    let keys: Vec<i64> = due.iter().map(|row| row.key).collect();
    let destination = operation.endpoint.0;
    match operation.kind {
        OperationKind::Recover => {
            resend::reopen(session, &keys, ManualAction::Resend, &operation.actor).await
        }
        OperationKind::ReplayMissing => {
            let messages = due.iter().filter_map(|row| row.message);
            let ids: Vec<EventId> = messages.map(|id| EventId::of_fan_out(id, destination)).collect();
            let ids: Vec<&str> = ids.iter().map(EventId::as_str).collect();
            session.query(&SHARE_MESSAGES, &[&keys]).await?;
            resend::lock_line(session, operation.app, destination).await?;
            resend::add_events(session, destination, &keys, &ids, None).await
        }
    }
}
