//! Retention of the registry: payloads and messages, and what a deleted endpoint leaves.
//!
//! A resend adds an event to a message that has none, and needs its payload. It locks the message until it commits. So a message is
//! changed or removed in two steps: the first locks the messages that no transaction holds, and the second has a newer snapshot,
//! which shows the events of every transaction that held them before.

use tokio_postgres::types::Type;

use crate::bulk::DELETE_OLD as DELETE_OLD_BULK_OPERATIONS;
use crate::registry::{self, DELETE_EXPIRED_ANSWERS, DELETE_OLD_OPERATIONS, REMOVE_DELETED, REMOVE_RETIRED};
use crate::session::{BEGIN, Session, Sql};

/// The condition under which the message `m` has a pending event. Uses indexes webhook_events_message and webhook_queue_id.
macro_rules! has_pending_event {
    () => {
        "EXISTS (SELECT FROM app.webhook_events e JOIN app.webhook_queue q ON q.id = e.id WHERE e.message_key = m.key)"
    };
}

/// The condition under which the message `m` has an event. Uses index webhook_events_message.
macro_rules! has_event {
    () => {
        "EXISTS (SELECT FROM app.webhook_events e WHERE e.message_key = m.key)"
    };
}

/// Locks up to $1 messages whose payload has expired. Uses index webhook_messages_expiry.
static LOCK_EXPIRED: Sql = Sql {
    text: concat!(
        "
SELECT m.key
FROM app.webhook_messages m
WHERE m.payload IS NOT NULL AND m.payload_expires_at <= app.webhook_now() AND NOT ",
        has_pending_event!(),
        "
ORDER BY m.payload_expires_at
LIMIT $1
FOR UPDATE SKIP LOCKED"
    ),
    types: &[Type::INT8],
};

/// Removes the payloads of those of the locked messages $1 that have no pending event.
static EXPUNGE: Sql = Sql {
    text: concat!(
        "UPDATE app.webhook_messages m SET payload = NULL WHERE m.key = ANY ($1) AND NOT ",
        has_pending_event!()
    ),
    types: &[Type::INT8_ARRAY],
};

/// Examines up to $3 messages after the key $1, in key order. Returns those that were published more than $2 microseconds ago and
/// have no event, and whether the step ended at a newer message. Uses index webhook_messages_key.
static EXAMINE_OLD: Sql = Sql {
    text: concat!(
        "
SELECT x.key, x.is_old, x.is_old AND NOT x.has_event
FROM (
    SELECT m.key, m.created_at <= app.webhook_now() - $2 * interval '1 microsecond' AS is_old, ",
        has_event!(),
        " AS has_event
    FROM app.webhook_messages m
    WHERE m.key > $1
    ORDER BY m.key
    LIMIT $3
) x
ORDER BY x.key"
    ),
    types: &[Type::INT8, Type::INT8, Type::INT8],
};

static LOCK_MESSAGES: Sql = Sql {
    text: "SELECT m.key FROM app.webhook_messages m WHERE m.key = ANY ($1) ORDER BY m.key FOR UPDATE SKIP LOCKED",
    types: &[Type::INT8_ARRAY],
};

/// Deletes those of the locked messages $1 that have no event.
static DELETE_MESSAGES: Sql = Sql {
    text: concat!("DELETE FROM app.webhook_messages m WHERE m.key = ANY ($1) AND NOT ", has_event!()),
    types: &[Type::INT8_ARRAY],
};

/// Where the passes over the registry continue.
pub(super) struct RegistryCursors {
    /// The last deleted endpoint whose pending events were cancelled.
    deleted_endpoints: i64,
    /// The key of the last message examined; zero between passes.
    messages: i64,
    /// Whether the pass over the messages has ended and rests.
    has_ended: bool,
}

impl RegistryCursors {
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Lets the next step begin a new pass over the messages.
    pub(super) fn start_again(&mut self) {
        self.has_ended = false;
    }
}

impl Default for RegistryCursors {
    fn default() -> Self {
        Self { deleted_endpoints: i64::MIN, messages: 0, has_ended: false }
    }
}

/// Cancels events of deleted endpoints, and removes expired answers, retired keys and expired payloads. Returns whether there is
/// more to do.
pub(super) async fn clean(
    session: &Session,
    cursors: &mut RegistryCursors,
    rows_max: i64,
) -> Result<bool, tokio_postgres::Error> {
    let is_full = |rows: usize| i64::try_from(rows).is_ok_and(|rows| rows >= rows_max);
    let answers = session.transact(&DELETE_EXPIRED_ANSWERS, &[&rows_max]).await?.len();
    session.transact(&REMOVE_RETIRED, &[]).await?;
    let (_, has_more) =
        registry::cancel_of_deleted(session, &mut cursors.deleted_endpoints, rows_max).await?;
    let expunged = expunge_expired(session, rows_max).await?;
    Ok(is_full(answers) || has_more || is_full(expunged))
}

async fn expunge_expired(session: &Session, rows_max: i64) -> Result<usize, tokio_postgres::Error> {
    session.begin(&BEGIN).await?;
    let rows = session.query(&LOCK_EXPIRED, &[&rows_max]).await?;
    let keys = rows.iter().map(|row| row.try_get(0)).collect::<Result<Vec<i64>, _>>()?;
    if !keys.is_empty() {
        session.query(&EXPUNGE, &[&keys]).await?;
    }
    session.client().batch_execute("COMMIT").await?;
    Ok(keys.len())
}

/// Removes old messages without events, and old operations. Returns whether there is more to remove.
pub(super) async fn remove_old(
    session: &Session,
    cursors: &mut RegistryCursors,
    keep_for: i64,
    rows_max: i64,
) -> Result<bool, tokio_postgres::Error> {
    let operations = session.transact(&DELETE_OLD_OPERATIONS, &[&keep_for, &rows_max]).await?.len();
    let bulk = session.transact(&DELETE_OLD_BULK_OPERATIONS, &[&keep_for, &rows_max]).await?.len();
    let is_full = |rows: usize| i64::try_from(rows).is_ok_and(|rows| rows >= rows_max);
    let has_more_operations = is_full(operations.max(bulk));
    if cursors.has_ended {
        return Ok(has_more_operations);
    }
    let examined = session.transact(&EXAMINE_OLD, &[&cursors.messages, &keep_for, &rows_max]).await?;
    let mut unused: Vec<i64> = Vec::new();
    let mut is_at_end = !is_full(examined.len());
    for row in &examined {
        is_at_end |= !row.try_get::<_, bool>(1)?;
        if row.try_get(2)? {
            unused.push(row.try_get(0)?);
        }
    }
    let last = examined.last().map_or(Ok(0), |row| row.try_get(0))?;
    cursors.messages = if is_at_end { 0 } else { last };
    cursors.has_ended = is_at_end;
    if !unused.is_empty() {
        session.begin(&BEGIN).await?;
        let locked = session.query(&LOCK_MESSAGES, &[&unused]).await?;
        let locked = locked.iter().map(|row| row.try_get(0)).collect::<Result<Vec<i64>, _>>()?;
        session.query(&DELETE_MESSAGES, &[&locked]).await?;
        session.client().batch_execute("COMMIT").await?;
    }
    Ok(!is_at_end || has_more_operations)
}

/// Removes the deleted applications to which nothing belongs any more.
pub(super) async fn remove_applications(session: &Session) -> Result<(), tokio_postgres::Error> {
    session.transact(&REMOVE_DELETED, &[]).await.map(drop)
}
