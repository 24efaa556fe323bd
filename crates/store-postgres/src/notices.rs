//! The log of notices, and the broadcast on the topic.
//!
//! A settle commits its notices with the changes they tell of, without a position: numbers drawn before a commit would
//! not be in the order of commits, and waiting for every older transaction would let any long one hold back all news.
//! Whoever looks next gives what has been committed its positions, under a lock, and broadcasts it in that same
//! transaction. So a notice is broadcast once, in the order of the log, and no crash loses it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::join;
use posthaste_domain::{EventId, Notice, NoticeKind, TOPIC};
use posthaste_store::{NoticeCursor, NoticePage, PublishedNotice, StoreError};
use tokio::sync::Notify;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::moment::Moment;
use crate::number::count;
use crate::session::{BEGIN, Session, Sql};
use crate::{Shared, pause};

/// Without news of its own, a process looks for those that others left.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Commits that get their position in one transaction.
const COMMITS_MAX: i64 = 64;
/// The server takes no notification of 8,000 bytes or more.
const NOTIFICATION_BYTES_MAX: usize = 7_900;

/// One process at a time; the statement after it sees what the last one committed.
static LOCK: Sql = Sql { text: "SELECT true FROM pg_advisory_xact_lock(7526, 1)", types: &[] };
static TRY_LOCK: Sql = Sql { text: "SELECT pg_try_advisory_xact_lock(7526, 1)", types: &[] };

/// Index webhook_notices_unplaced.
static PLACE: Sql = Sql {
    text: "
WITH placed AS (
    UPDATE app.webhook_notices n
    SET position = nextval('app.webhook_notice_position')
    FROM (SELECT u.id FROM app.webhook_notices u WHERE u.position IS NULL ORDER BY u.id LIMIT $1) u
    WHERE n.id = u.id
    RETURNING n.position, to_char(n.at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') AS at,
              n.event_keys, n.delivered, n.attempts
)
SELECT p.at, u.delivered, u.attempts, e.event_id, e.webhook_id, e.session_id, e.payment_request_id
FROM placed p
CROSS JOIN LATERAL unnest(p.event_keys, p.delivered, p.attempts)
           WITH ORDINALITY AS u (key, delivered, attempts, n)
JOIN app.webhook_events e ON e.id = u.key
ORDER BY p.position, u.n",
    types: &[Type::INT8],
};

static BROADCAST: Sql = Sql {
    text: "SELECT pg_notify($2, c.text) FROM unnest($1::text[]) AS c (text)",
    types: &[Type::TEXT_ARRAY, Type::TEXT],
};

/// Under the lock nobody is in the middle of placing: every position that was drawn is committed.
static END: Sql = Sql {
    text: "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM app.webhook_notice_position",
    types: &[],
};

/// Index webhook_notices_position.
static AFTER: Sql = Sql {
    text: "
SELECT n.position, u.n, n.at, e.event_id, e.webhook_id, e.session_id, e.payment_request_id, u.delivered, u.attempts
FROM app.webhook_notices n
CROSS JOIN LATERAL unnest(n.event_keys, n.delivered, n.attempts)
           WITH ORDINALITY AS u (key, delivered, attempts, n)
JOIN app.webhook_events e ON e.id = u.key
WHERE n.position >= $1 AND (n.position > $1 OR u.n > $2)
ORDER BY n.position, u.n
LIMIT $3",
    types: &[Type::INT8, Type::INT8, Type::INT8],
};

/// Rung when this process has committed notices.
#[derive(Clone, Default)]
pub(crate) struct Unplaced(Arc<Notify>);

impl Unplaced {
    pub(crate) fn unplaced(&self) {
        self.0.notify_one();
    }
}

/// Places and broadcasts for as long as the store is used by anybody.
pub(crate) async fn run(shared: Weak<Shared>) {
    loop {
        let Some(store) = shared.upgrade() else { return };
        if let Err(error) = store.sessions.operate.with(async |session| place(session, &TRY_LOCK).await).await
        {
            tracing::debug!(code = error.code(), %error, "notices wait for the store to come back");
        }
        let unplaced = store.notices.clone();
        drop(store);
        tokio::select! {
            biased;
            () = unplaced.0.notified() => {}
            () = pause(LOOK_EVERY) => {}
        }
    }
}

/// Gives everything that has been committed its position, and tells where the log ends. Without the lock, which
/// somebody else has, there is nothing to do: they place what is there, or it is placed in the next round.
async fn place(session: &Session, lock: &Sql) -> Result<i64, tokio_postgres::Error> {
    let (lock, place, end) =
        (session.prepare(lock).await?, session.prepare(&PLACE).await?, session.prepare(&END).await?);
    loop {
        let (begun, locked) = join(session.client().batch_execute(BEGIN), session.send(&lock, &[])).await;
        begun?;
        let locked: bool = locked?.first().expect("the statement answers with one row").try_get(0)?;
        let placed = if locked { session.send(&place, &[&COMMITS_MAX]).await? } else { Vec::new() };
        if !placed.is_empty() {
            session.query(&BROADCAST, &[&broadcasts(&placed)?, &TOPIC]).await?;
        }
        let (end, committed) = join(session.send(&end, &[]), session.client().batch_execute("COMMIT")).await;
        committed?;
        if placed.is_empty() {
            return end?.first().expect("the statement answers with one row").try_get(0);
        }
    }
}

/// JSON arrays of notices, each as long as a notification may be.
fn broadcasts(placed: &[Row]) -> Result<Vec<String>, tokio_postgres::Error> {
    let mut broadcasts: Vec<String> = Vec::new();
    for row in placed {
        let notice = broadcast(row)?;
        match broadcasts.last_mut() {
            Some(last) if last.len() + notice.len() + 2 <= NOTIFICATION_BYTES_MAX => {
                last.push(',');
                last.push_str(&notice);
            }
            _ => broadcasts.push(format!("[{notice}")),
        }
    }
    for broadcast in &mut broadcasts {
        broadcast.push(']');
    }
    Ok(broadcasts)
}

/// One notice as it is on the wire.
fn broadcast(row: &Row) -> Result<String, tokio_postgres::Error> {
    let delivered: bool = row.try_get(1)?;
    let kind = if delivered { NoticeKind::Delivered } else { NoticeKind::DeadLettered };
    let notice = serde_json::json!({
        "topic": TOPIC,
        "type": kind.as_str(),
        "webhook_delivery_id": row.try_get::<_, &str>(3)?,
        "webhook_id": row.try_get::<_, Option<&str>>(4)?,
        "session_id": row.try_get::<_, Option<&str>>(5)?,
        "payment_request_id": row.try_get::<_, Option<&str>>(6)?,
        "attempts": row.try_get::<_, i32>(2)?,
        "at": row.try_get::<_, &str>(0)?,
    });
    Ok(notice.to_string())
}

pub(crate) async fn notices(
    store: &Shared,
    after: Option<NoticeCursor>,
    limit: usize,
) -> Result<NoticePage, StoreError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let page = store.sessions.operate.with(async |session| {
        let end = place(session, &LOCK).await?;
        let Some(after) = after else {
            let cursor = NoticeCursor { major: end, minor: i64::MAX };
            return Ok(NoticePage { notices: Vec::new(), cursor });
        };
        let rows = session.transact(&AFTER, &[&after.major, &after.minor, &limit]).await?;
        let notices = rows.iter().map(published).collect::<Result<Vec<_>, _>>()?;
        let cursor = notices.last().map_or(after, |last| last.cursor);
        Ok(NoticePage { notices, cursor })
    });
    page.await
}

fn published(row: &Row) -> Result<PublishedNotice, tokio_postgres::Error> {
    let delivered: bool = row.try_get(7)?;
    Ok(PublishedNotice {
        cursor: NoticeCursor { major: row.try_get(0)?, minor: row.try_get(1)? },
        notice: Notice {
            kind: if delivered { NoticeKind::Delivered } else { NoticeKind::DeadLettered },
            event_id: EventId::stored(row.try_get(3)?),
            webhook_id: row.try_get(4)?,
            session_id: row.try_get(5)?,
            payment_request_id: row.try_get(6)?,
            attempts: count(row.try_get(8)?),
            at: row.try_get::<_, Moment>(2)?.0,
        },
    })
}
