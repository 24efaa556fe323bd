//! The notice log, and the broadcast of notices on the topic.
//!
//! A settle commits notices together with its changes, without a position in the log. Positions drawn before the commit
//! would not follow the order of commits, and waiting for all older transactions would let one long transaction delay
//! every notice. Instead, the next process to read or publish the log assigns positions to the committed notices,
//! under a lock, and broadcasts them in the same transaction. Each notice is therefore broadcast once, in the order
//! of the log, and survives any crash. Positions grow even if a failover loses commits.

mod broadcast;
mod committed;

use std::sync::Weak;
use std::time::Duration;

use futures_util::future::{join, join3};
use posthaste_domain::{
    ApplicationId, DestinationId, DestinationUrl, EndpointId, EventId, Notice, NoticeEndpoint, NoticeKind,
};
use posthaste_store::{NoticeCursor, NoticePage, NoticeSubject, PublishedNotice, StoreError};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::convert::{PgNoticeKind, PgTimestamp, micros, unsigned};
use crate::session::{BEGIN, Session, Sql};
use crate::{StoreState, sleep};
use broadcast::{NoticeFields, Notifications};
pub(crate) use committed::{CommittedNotices, EventReferences, NoticeReferences, NoticeRow};

/// How often a process publishes the notices that other processes have committed and left behind.
const PUBLISH_INTERVAL: Duration = Duration::from_secs(1);
/// When a notice counts as left behind. The process that has committed it publishes it sooner, and without reading its event; if
/// several are busy, it may have to wait for the lock.
const LEFT_BEHIND_AFTER: Duration = Duration::from_secs(1);
/// How long the publisher rests after it has published. A publication is a commit, so the settles of that time share it.
const PUBLISH_PAUSE: Duration = Duration::from_millis(5);
/// Commits whose notices get positions in one transaction.
const COMMITS_MAX: usize = 64;

/// The time of a notice as the topic shows it: RFC 3339 in UTC, with microseconds.
macro_rules! topic_time {
    ($time:literal) => {
        concat!("to_char(", $time, " AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')")
    };
}
pub(crate) use topic_time;

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

/// The fields that [`event_references`] joins. Both statements with them have them in columns 3 to 8.
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

/// Builds a statement that assigns positions to the committed notices of the rows that `$rows` selects, and returns the ids of
/// these rows in the order of the log.
macro_rules! assign_positions {
    ($rows:literal) => {
        concat!(
            "
WITH timeline AS MATERIALIZED (
    SELECT app.webhook_notice_position_base() AS base
),
positioned AS (
    UPDATE app.webhook_notices n
    SET position = t.base + nextval('app.webhook_notice_position')
    FROM timeline t, (",
            $rows,
            ") u
    WHERE n.id = u.id
    RETURNING n.position, n.id
)
SELECT p.id FROM positioned p ORDER BY p.position"
        )
    };
}

/// Assigns positions to committed notices that are at least $2 microseconds old, of at most $1 commits. Those of a clock that was
/// ahead count as old. Uses index webhook_notices_without_position.
static ASSIGN_ALL: Sql = Sql {
    text: assign_positions!(
        "SELECT o.id FROM app.webhook_notices o
         WHERE o.position IS NULL
               AND (o.at <= app.webhook_now() - $2 * interval '1 microsecond' OR o.at > app.webhook_now())
         ORDER BY o.id LIMIT $1"
    ),
    types: &[Type::INT8, Type::INT8],
};

/// Assigns positions to the notices of the commits $1, unless they have one. Uses index webhook_notices_id.
static ASSIGN_OWN: Sql = Sql {
    text: assign_positions!(
        "SELECT o.id FROM app.webhook_notices o WHERE o.id = ANY ($1) AND o.position IS NULL ORDER BY o.id"
    ),
    types: &[Type::INT8_ARRAY],
};

/// Reads the notices of the commits $1 in the order of the log. Uses index webhook_notices_id.
static NOTICES_OF_COMMITS: Sql = Sql {
    text: concat!(
        "
SELECT n.id, u.failure_kind, u.attempts, ",
        reference_columns!(),
        ", ",
        topic_time!("n.at"),
        "
FROM app.webhook_notices n
CROSS JOIN LATERAL unnest(n.event_keys, n.failure_kinds, n.attempts)
           WITH ORDINALITY AS u (key, failure_kind, attempts, n)
",
        event_references!(),
        "
WHERE n.id = ANY ($1) AND (e.id IS NOT NULL OR d.event_id IS NOT NULL)
ORDER BY n.position, u.n"
    ),
    types: &[Type::INT8_ARRAY],
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

/// Reads the notices after a cursor, given as the position $1 of a commit and the ordinal $2 within it. Uses indexes
/// webhook_notices_position and webhook_destinations_id.
static NOTICES_AFTER: Sql = Sql {
    text: concat!(
        "
SELECT n.position, u.n, n.at, ",
        reference_columns!(),
        ", u.failure_kind, u.attempts, e.event_type, w.url
FROM app.webhook_notices n
CROSS JOIN LATERAL unnest(n.event_keys, n.failure_kinds, n.attempts)
           WITH ORDINALITY AS u (key, failure_kind, attempts, n)
",
        event_references!(),
        "
LEFT JOIN app.webhook_destinations w ON w.id = e.destination_id
WHERE n.position >= $1 AND (n.position > $1 OR u.n > $2) AND (e.id IS NOT NULL OR d.event_id IS NOT NULL)
ORDER BY n.position, u.n
LIMIT $3"
    ),
    types: &[Type::INT8, Type::INT8, Type::INT8],
};

/// Publishes notices until the store is dropped: assigns their positions and broadcasts them.
///
/// A process publishes what it has committed itself at once, or [`PUBLISH_PAUSE`] after its last publication, and what other
/// processes have left behind every [`PUBLISH_INTERVAL`]. So several busy workers do not read each other's events for it, except
/// after operators' actions and maintenance.
pub(crate) async fn run(state: Weak<StoreState>) {
    let mut is_interval_over = true;
    let mut interval = Box::pin(sleep(PUBLISH_INTERVAL));
    loop {
        let Some(store) = state.upgrade() else { return };
        let committed = store.committed_notices.clone();
        let min_age = match committed.take_has_others() {
            true => Some(Duration::ZERO),
            false => is_interval_over.then_some(LEFT_BEHIND_AFTER),
        };
        let published = store.sessions.operate.with(async |session| {
            publish_own(session, &committed).await?;
            if let Some(min_age) = min_age {
                publish_all(session, &committed, min_age).await?;
            }
            Ok(())
        });
        if let Err(error) = published.await {
            tracing::debug!(code = error.code(), %error, "notices not published; retrying in the next round");
        }
        drop(store);
        sleep(PUBLISH_PAUSE).await;
        tokio::select! {
            biased;
            () = &mut interval => {
                is_interval_over = true;
                interval = Box::pin(sleep(PUBLISH_INTERVAL));
            }
            () = committed.changed() => is_interval_over = false,
        }
    }
}

/// Assigns positions to the notices that this process has the texts of, and broadcasts them.
async fn publish_own(session: &Session, committed: &CommittedNotices) -> Result<(), tokio_postgres::Error> {
    loop {
        let commits = committed.rows(COMMITS_MAX);
        if commits.is_empty() {
            return Ok(());
        }
        let (lock, assign) = (session.prepare(&LOCK_LOG).await?, session.prepare(&ASSIGN_OWN).await?);
        let (begun, locked, assigned) =
            join3(session.begin(&BEGIN), session.send(&lock, &[]), session.send(&assign, &[&commits])).await;
        begun?;
        locked?;
        let positioned = assigned?.iter().map(|row| row.try_get(0)).collect::<Result<Vec<i64>, _>>()?;
        // Texts may have been dropped meanwhile, because there were too many of them.
        let notifications = read_notifications(session, committed, &positioned).await?;
        commit_broadcast(session, notifications).await?;
        // Another process has published those that had a position.
        committed.remove(&commits);
    }
}

/// Assigns positions to all committed notices of at least this age, broadcasts the notices, and returns the last position of the
/// log.
async fn publish_all(
    session: &Session,
    committed: &CommittedNotices,
    min_age: Duration,
) -> Result<i64, tokio_postgres::Error> {
    let (lock, assign, last_position) = (
        session.prepare(&LOCK_LOG).await?,
        session.prepare(&ASSIGN_ALL).await?,
        session.prepare(&LAST_POSITION).await?,
    );
    let commits_max = i64::try_from(COMMITS_MAX).expect("the limit is small");
    let min_age = micros(min_age);
    loop {
        let (begun, locked, assigned) = join3(
            session.begin(&BEGIN),
            session.send(&lock, &[]),
            session.send(&assign, &[&commits_max, &min_age]),
        )
        .await;
        begun?;
        locked?;
        let commits = assigned?.iter().map(|row| row.try_get(0)).collect::<Result<Vec<i64>, _>>()?;
        let last_position = session.send(&last_position, &[]).await?;
        if commits.is_empty() {
            session.client().batch_execute("COMMIT").await?;
            return last_position.first().expect("the statement returns one row").try_get(0);
        }
        let notifications = read_notifications(session, committed, &commits).await?;
        commit_broadcast(session, notifications).await?;
        committed.remove(&commits);
    }
}

/// Returns the notices of commits, in this order. Reads those that this process does not have the texts of.
async fn read_notifications(
    session: &Session,
    committed: &CommittedNotices,
    commits: &[i64],
) -> Result<Notifications, tokio_postgres::Error> {
    let known: Vec<Option<Notifications>> = commits.iter().map(|commit| committed.get(*commit)).collect();
    let unknown: Vec<i64> =
        commits.iter().zip(&known).filter(|(_, known)| known.is_none()).map(|(commit, _)| *commit).collect();
    let rows =
        if unknown.is_empty() { Vec::new() } else { session.query(&NOTICES_OF_COMMITS, &[&unknown]).await? };
    let mut rows = rows.iter().peekable();
    let mut notifications = Notifications::default();
    for (commit, known) in commits.iter().zip(known) {
        if let Some(known) = known {
            notifications.append(known);
            continue;
        }
        while let Some(row) = rows.next_if(|row| row.try_get(0).is_ok_and(|id: i64| id == *commit)) {
            notifications.push(&parse_fields(row)?);
        }
    }
    Ok(notifications)
}

/// Sends the notifications and commits the transaction, in one round trip.
async fn commit_broadcast(
    session: &Session,
    notifications: Notifications,
) -> Result<(), tokio_postgres::Error> {
    if notifications.is_empty() {
        return session.client().batch_execute("COMMIT").await;
    }
    let (texts, channel) = (notifications.into_texts(), session.schema().notice_channel());
    let broadcast = session.prepare(&BROADCAST).await?;
    let (sent, committed) =
        join(session.send(&broadcast, &[&texts, &channel]), session.client().batch_execute("COMMIT")).await;
    sent?;
    committed
}

/// Parses a row of [`NOTICES_OF_COMMITS`].
fn parse_fields(row: &Row) -> Result<NoticeFields<'_>, tokio_postgres::Error> {
    let kind = parse_kind(row, 1)?;
    Ok(NoticeFields {
        kind,
        at: row.try_get(9)?,
        attempts: unsigned(row.try_get(2)?),
        event_id: row.try_get(3)?,
        webhook_id: row.try_get(4)?,
        session_id: row.try_get(5)?,
        payment_request_id: row.try_get(6)?,
        endpoint: kind.disable_reason().map(|_| parse_endpoint(row)).transpose()?,
    })
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
        let last_position = publish_all(session, &store.committed_notices, Duration::ZERO).await?;
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
    let (event_type, url): (Option<String>, Option<String>) = (row.try_get(11)?, row.try_get(12)?);
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
        subject: event_type.zip(url).map(|(event_type, url)| NoticeSubject {
            event_type,
            destination_url: DestinationUrl::from_stored(url),
        }),
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
