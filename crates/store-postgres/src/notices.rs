//! The notice log, and the broadcast of notices on the topic.
//!
//! A settle commits notices together with its changes, without a position in the log. Positions drawn before the commit
//! would not follow the order of commits, and waiting for all older transactions would let one long transaction delay
//! every notice. Instead, the next process to read or publish the log assigns positions to the committed notices,
//! under a lock, and broadcasts them in the same transaction. Each notice is therefore broadcast once, in the order
//! of the log, and survives any crash. Positions grow even if a failover loses commits.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::join;
use posthaste_domain::{
    ApplicationId, DestinationId, EndpointId, EventId, FailureKind, NOTICE_TOPIC, Notice, NoticeEndpoint,
    NoticeKind,
};
use posthaste_store::{NoticeCursor, NoticePage, PublishedNotice, StoreError};
use tokio::sync::Notify;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::convert::{PgNoticeKind, PgTimestamp, unsigned};
use crate::session::{BEGIN, Session, Sql};
use crate::{StoreState, sleep};

/// How often a process without notices of its own publishes notices that other processes have committed.
const PUBLISH_INTERVAL: Duration = Duration::from_secs(1);
/// Commits whose notices get positions in one transaction.
const COMMITS_MAX: i64 = 64;
/// Longest payload of a notification: PostgreSQL rejects 8,000 bytes and more.
const NOTIFICATION_BYTES_MAX: usize = 7_900;

/// Joins the notices `u` with the fields of their events, as `e`, also of discarded events. Omits notices whose events
/// retention has removed. Reads the discarded events only for an event that is missing. Uses indexes webhook_events_id and
/// webhook_discarded_events_id.
macro_rules! event_references {
    () => {
        "LEFT JOIN app.webhook_events e ON e.id = u.key
LEFT JOIN LATERAL (
    SELECT d.event_id, d.webhook_id, d.session_id, d.payment_request_id, d.destination_id, d.app_id
    FROM app.webhook_discarded_events d
    WHERE e.id IS NULL AND d.id = u.key
    LIMIT 1
) d ON true"
    };
}

/// The fields that [`event_references`] joins. Both statements have them in columns 3 to 8.
macro_rules! reference_columns {
    () => {
        "coalesce(e.event_id, d.event_id), coalesce(e.webhook_id, d.webhook_id), coalesce(e.session_id, d.session_id),
       coalesce(e.payment_request_id, d.payment_request_id), coalesce(e.destination_id, d.destination_id),
       coalesce(e.app_id, d.app_id)"
    };
}

/// Waits for the lock under which positions are assigned. The next statement sees the positions that the previous
/// holder committed.
static LOCK_LOG: Sql = Sql { text: "SELECT true FROM pg_advisory_xact_lock(7526, 1)", types: &[] };
/// Takes the lock under which positions are assigned, or returns false if another process holds it.
static TRY_LOCK_LOG: Sql = Sql { text: "SELECT pg_try_advisory_xact_lock(7526, 1)", types: &[] };

/// Assigns positions to committed notices and returns them in the order of the log. Uses index
/// webhook_notices_without_position.
static ASSIGN_POSITIONS: Sql = Sql {
    text: concat!(
        "
WITH timeline AS MATERIALIZED (
    SELECT app.webhook_notice_position_base() AS base
),
positioned AS (
    UPDATE app.webhook_notices n
    SET position = t.base + nextval('app.webhook_notice_position')
    FROM timeline t, (SELECT u.id FROM app.webhook_notices u WHERE u.position IS NULL ORDER BY u.id LIMIT $1) u
    WHERE n.id = u.id
    RETURNING n.position, to_char(n.at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') AS at,
              n.event_keys, n.failure_kinds, n.attempts
)
SELECT p.at, u.failure_kind, u.attempts, ",
        reference_columns!(),
        "
FROM positioned p
CROSS JOIN LATERAL unnest(p.event_keys, p.failure_kinds, p.attempts)
           WITH ORDINALITY AS u (key, failure_kind, attempts, n)
",
        event_references!(),
        "
WHERE e.id IS NOT NULL OR d.event_id IS NOT NULL
ORDER BY p.position, u.n"
    ),
    types: &[Type::INT8],
};

/// Sends each text of $1 as a PostgreSQL notification on the channel $2.
static BROADCAST: Sql = Sql {
    text: "SELECT pg_notify($2, c.text) FROM unnest($1::text[]) AS c (text)",
    types: &[Type::TEXT_ARRAY, Type::TEXT],
};

/// Reads the last position of the notice log. Under the lock no other process is assigning positions, so every
/// position up to this one has been committed.
static LAST_POSITION: Sql = Sql {
    text: "
SELECT app.webhook_notice_position_base() + CASE WHEN s.is_called THEN s.last_value ELSE 0 END
FROM app.webhook_notice_position s",
    types: &[],
};

/// Reads the notices after a cursor, given as the position $1 of a commit and the ordinal $2 within it. Uses index
/// webhook_notices_position.
static NOTICES_AFTER: Sql = Sql {
    text: concat!(
        "
SELECT n.position, u.n, n.at, ",
        reference_columns!(),
        ", u.failure_kind, u.attempts
FROM app.webhook_notices n
CROSS JOIN LATERAL unnest(n.event_keys, n.failure_kinds, n.attempts)
           WITH ORDINALITY AS u (key, failure_kind, attempts, n)
",
        event_references!(),
        "
WHERE n.position >= $1 AND (n.position > $1 OR u.n > $2) AND (e.id IS NOT NULL OR d.event_id IS NOT NULL)
ORDER BY n.position, u.n
LIMIT $3"
    ),
    types: &[Type::INT8, Type::INT8, Type::INT8],
};

/// A signal that wakes the publisher when this process has committed notices.
#[derive(Clone, Default)]
pub(crate) struct NoticeSignal(Arc<Notify>);

impl NoticeSignal {
    /// Signals that notices have been committed.
    pub(crate) fn notify(&self) {
        self.0.notify_one();
    }
}

/// Publishes notices until the store is dropped: assigns their positions and broadcasts them.
pub(crate) async fn run(state: Weak<StoreState>) {
    loop {
        let Some(store) = state.upgrade() else { return };
        let published =
            store.sessions.operate.with(async |session| assign_positions(session, &TRY_LOCK_LOG).await);
        if let Err(error) = published.await {
            tracing::debug!(code = error.code(), %error, "notices not published; retrying in the next round");
        }
        let signal = store.notice_signal.clone();
        drop(store);
        tokio::select! {
            biased;
            () = signal.0.notified() => {}
            () = sleep(PUBLISH_INTERVAL) => {}
        }
    }
}

/// Assigns positions to all committed notices, broadcasts the notices, and returns the last position of the log. If
/// `lock` is [`TRY_LOCK_LOG`] and another process holds the lock, only returns the last position: that process, or the
/// next round, publishes the notices.
async fn assign_positions(session: &Session, lock: &Sql) -> Result<i64, tokio_postgres::Error> {
    let (lock, assign, last_position) = (
        session.prepare(lock).await?,
        session.prepare(&ASSIGN_POSITIONS).await?,
        session.prepare(&LAST_POSITION).await?,
    );
    loop {
        let (begun, locked) = join(session.begin(&BEGIN), session.send(&lock, &[])).await;
        begun?;
        let locked: bool = locked?.first().expect("the statement returns one row").try_get(0)?;
        let notices = if locked { session.send(&assign, &[&COMMITS_MAX]).await? } else { Vec::new() };
        if !notices.is_empty() {
            let (payloads, channel) = (notification_payloads(&notices)?, session.schema().notice_channel());
            session.query(&BROADCAST, &[&payloads, &channel]).await?;
        }
        let (last_position, committed) =
            join(session.send(&last_position, &[]), session.client().batch_execute("COMMIT")).await;
        committed?;
        if notices.is_empty() {
            return last_position?.first().expect("the statement returns one row").try_get(0);
        }
    }
}

/// Packs notices into JSON arrays, each short enough for one PostgreSQL notification.
fn notification_payloads(notices: &[Row]) -> Result<Vec<String>, tokio_postgres::Error> {
    let mut payloads: Vec<String> = Vec::new();
    let mut notice = String::new();
    for row in notices {
        notice.clear();
        write_json(row, &mut notice)?;
        match payloads.last_mut() {
            Some(last) if last.len() + notice.len() + 2 <= NOTIFICATION_BYTES_MAX => {
                last.push(',');
                last.push_str(&notice);
            }
            _ => {
                let mut payload = String::with_capacity(NOTIFICATION_BYTES_MAX);
                payload.push('[');
                payload.push_str(&notice);
                payloads.push(payload);
            }
        }
    }
    for payload in &mut payloads {
        payload.push(']');
    }
    Ok(payloads)
}

/// Writes one notice as the JSON object of the broadcast. It is written by hand, because every delivery has a notice.
fn write_json(row: &Row, json: &mut String) -> Result<(), tokio_postgres::Error> {
    let kind = parse_kind(row, 1)?;
    let attempts = row.try_get::<_, i32>(2)?.to_string();
    push_field(json, '{', "at", row.try_get::<_, Option<&str>>(0)?);
    json.push_str(",\"attempts\":");
    json.push_str(&attempts);
    if let Some(reason) = kind.disable_reason() {
        let endpoint = parse_endpoint(row)?;
        push_field(json, ',', "app_id", Some(&endpoint.app.to_string()));
        push_field(json, ',', "endpoint_id", Some(&endpoint.id.to_string()));
        push_field(json, ',', "reason", Some(reason.as_str()));
    }
    push_field(json, ',', "failure_kind", kind.failure_kind().map(FailureKind::as_str));
    push_field(json, ',', "payment_request_id", row.try_get::<_, Option<&str>>(6)?);
    push_field(json, ',', "session_id", row.try_get::<_, Option<&str>>(5)?);
    push_field(json, ',', "topic", Some(NOTICE_TOPIC));
    push_field(json, ',', "type", Some(kind.as_str()));
    push_field(json, ',', "webhook_delivery_id", row.try_get::<_, Option<&str>>(3)?);
    push_field(json, ',', "webhook_id", row.try_get::<_, Option<&str>>(4)?);
    json.push('}');
    Ok(())
}

/// Appends a field of a JSON object after `separator`.
fn push_field(json: &mut String, separator: char, name: &str, value: Option<&str>) {
    json.push(separator);
    json.push('"');
    json.push_str(name);
    json.push_str("\":");
    match value {
        None => json.push_str("null"),
        Some(text)
            if text.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\') =>
        {
            json.push('"');
            json.push_str(text);
            json.push('"');
        }
        Some(text) => json.push_str(&serde_json::Value::from(text).to_string()),
    }
}

/// Reads notices after a cursor. Without a cursor, and with one beyond the end of the log, returns no notices and the
/// cursor at the end of the log.
pub(crate) async fn notices(
    store: &StoreState,
    after: Option<NoticeCursor>,
    limit: usize,
) -> Result<NoticePage, StoreError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let page = store.sessions.operate.with(async |session| {
        let last_position = assign_positions(session, &LOCK_LOG).await?;
        let end = NoticeCursor { major: last_position, minor: i64::MAX };
        let Some(after) = after.filter(|after| *after <= end) else {
            return Ok(NoticePage { notices: Vec::new(), cursor: end });
        };
        let rows = session.transact(&NOTICES_AFTER, &[&after.major, &after.minor, &limit]).await?;
        let notices = rows.iter().map(parse_notice).collect::<Result<Vec<_>, _>>()?;
        let cursor = notices.last().map_or(after, |last| last.cursor);
        Ok(NoticePage { notices, cursor })
    });
    page.await
}

/// Parses a row of [`NOTICES_AFTER`].
fn parse_notice(row: &Row) -> Result<PublishedNotice, tokio_postgres::Error> {
    let kind = parse_kind(row, 9)?;
    Ok(PublishedNotice {
        cursor: NoticeCursor { major: row.try_get(0)?, minor: row.try_get(1)? },
        notice: Notice {
            kind,
            event_id: EventId::from_stored(row.try_get(3)?),
            webhook_id: row.try_get(4)?,
            session_id: row.try_get(5)?,
            payment_request_id: row.try_get(6)?,
            attempts: unsigned(row.try_get(10)?),
            at: row.try_get::<_, PgTimestamp>(2)?.0,
            endpoint: kind.disable_reason().map(|_| parse_endpoint(row)).transpose()?,
        },
    })
}

/// Parses the endpoint of an event, from the columns of [`reference_columns`].
fn parse_endpoint(row: &Row) -> Result<NoticeEndpoint, tokio_postgres::Error> {
    let id = EndpointId(DestinationId(row.try_get(7)?));
    Ok(NoticeEndpoint { id, app: ApplicationId(row.try_get(8)?) })
}

/// Parses the kind of a notice, whose column is NULL for a delivered event.
fn parse_kind(row: &Row, column: usize) -> Result<NoticeKind, tokio_postgres::Error> {
    let kind = row.try_get::<_, Option<PgNoticeKind>>(column)?;
    Ok(kind.map_or(NoticeKind::Delivered, |PgNoticeKind(kind)| kind))
}
