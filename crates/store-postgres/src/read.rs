//! What operators look at. Each listing is one statement and never comes near a payload. None costs what was delivered
//! long ago; where one has to step over something, it says so.

use std::time::Duration;

use futures_util::future::join3;
use posthaste_domain::{
    DeliveryStatus, DestinationId, DestinationUrl, ErrorClass, EventId, Excerpt, LeaseToken, Timestamp,
    Trigger, WorkerId,
};
use posthaste_store::{
    AttemptView, AuditView, CircuitState, Cursor, DestinationState, EventDetail, EventQuery, EventView,
    ManualAction, Overview, Page, PageRequest, StoreError, Vitals,
};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::Shared;
use crate::error::refusal;
use crate::event::{BY_EVENT_ID, event_columns, view};
use crate::migrate::known_version;
use crate::moment::Moment;
use crate::number::count;
use crate::session::Sql;

/// Counts by state are kept; what time decides is counted: retries that are not due yet (webhook_queue_turn) and
/// events under a live lease (webhook_claims, then the queue by key). The oldest is the first of webhook_queue_id that can be.
pub(crate) static OVERVIEW: Sql = Sql {
    text: "
SELECT c.pending, c.retrying, c.delivered, c.failed,
       (SELECT count(*) FROM app.webhook_queue q WHERE q.turn > app.webhook_turn_at(app.webhook_now())),
       (SELECT count(*)
        FROM app.webhook_claims l
        CROSS JOIN LATERAL unnest(l.keys) AS k (key)
        JOIN app.webhook_queue q ON q.id = k.key AND q.lease_claim = l.id
        WHERE q.lease_until > app.webhook_now()),
       (SELECT e.created_at
        FROM app.webhook_queue q
        JOIN app.webhook_events e ON e.id = q.id
        WHERE q.id >= (SELECT o.key FROM app.webhook_oldest o)
        ORDER BY q.id
        LIMIT 1),
       app.webhook_now()
FROM (
    SELECT coalesce(sum(pending), 0)::bigint AS pending, coalesce(sum(retrying), 0)::bigint AS retrying,
           coalesce(sum(delivered), 0)::bigint AS delivered, coalesce(sum(failed), 0)::bigint AS failed
    FROM app.webhook_counts
) c",
    types: &[],
};

/// A schema of a newer Posthaste is told by its migrations.
pub(crate) static VITALS: Sql =
    Sql { text: "SELECT app.webhook_now(), (SELECT max(version) FROM app.webhook_migrations)", types: &[] };

pub(crate) async fn vitals(store: &Shared) -> Result<Vitals, StoreError> {
    let rows = store.sessions.operate.with(async |session| session.query(&VITALS, &[]).await).await?;
    vitals_of(&rows[0]).map_err(|error| refusal(&error))
}

pub(crate) fn vitals_of(row: &Row) -> Result<Vitals, tokio_postgres::Error> {
    let (now, schema): (Moment, i32) = (row.try_get(0)?, row.try_get(1)?);
    Ok(Vitals { now: now.0, schema: schema.into(), schema_known: known_version().into() })
}

/// Index webhook_endings_dead_letters, backwards.
pub(crate) static DEAD_LETTERS: Sql = Sql {
    text: concat!(
        "
SELECT ",
        event_columns!(),
        "
FROM (
    SELECT x.id
    FROM app.webhook_endings x
    WHERE x.failure_kind IS NOT NULL
          AND (x.updated_at, x.id) < (timestamptz 'epoch' + $1 * interval '1 microsecond', $2)
    ORDER BY x.updated_at DESC, x.id DESC
    LIMIT $3
) d
JOIN app.webhook_outbox_events v ON v.id = d.id
ORDER BY v.updated_at DESC, v.id DESC"
    ),
    types: &[Type::INT8, Type::INT8, Type::INT8],
};

/// Events of which `$driver` yields the keys below $1, the newest first, at most $2; $3 is the destination.
macro_rules! listing {
    ($($driver:expr),+) => {
        Sql {
            text: concat!(
                "
SELECT ",
                event_columns!(),
                "
FROM (",
                $($driver,)+
                " LIMIT $2) d
JOIN app.webhook_outbox_events v ON v.id = d.id AND ($3::bigint IS NULL OR v.destination_id = $3)
ORDER BY v.id DESC"
            ),
            types: &[Type::INT8, Type::INT8, Type::INT8],
        }
    };
}

/// The keys of one destination, the newest first, said so that only an index of (`$destination`, id) can have them: where
/// there are few destinations, the planner would rather walk everybody's.
macro_rules! there {
    ($destination:literal) => {
        concat!(
            "(",
            $destination,
            ", d.id) < ($3, $1) AND ",
            $destination,
            " >= $3 ORDER BY ",
            $destination,
            " DESC, d.id DESC"
        )
    };
}

static ANY: Sql = listing!("SELECT d.id FROM app.webhook_events d WHERE d.id < $1 ORDER BY d.id DESC");
static PENDING: Sql = listing!(
    "SELECT d.id FROM app.webhook_queue d
     WHERE d.id < $1 AND d.id >= (SELECT o.key FROM app.webhook_oldest o) ORDER BY d.id DESC"
);
static FAILED: Sql = listing!(
    "SELECT d.id FROM app.webhook_endings d WHERE d.id < $1 AND d.failure_kind IS NOT NULL ORDER BY d.id DESC"
);
static DELIVERED: Sql = listing!(
    "SELECT d.id FROM app.webhook_endings d WHERE d.id < $1 AND d.failure_kind IS NULL ORDER BY d.id DESC"
);
/// Index webhook_events_destination, backwards.
static ANY_THERE: Sql = listing!("SELECT d.id FROM app.webhook_events d WHERE ", there!("d.destination_id"));
/// No index has the pending events of a destination by key, and every enqueue would pay for one. While it is down they are
/// its latest events, and a short walk of webhook_events_destination fills the page. Else they are mostly few, and all that
/// are in line (webhook_queue_destination_turn) are read and sorted; the fence keeps that from being a walk of everybody's.
static PENDING_THERE: Sql = listing!(
    "WITH latest AS MATERIALIZED (
         SELECT d.id FROM app.webhook_events d WHERE ",
    there!("d.destination_id"),
    " LIMIT 1000
     ),
     near AS MATERIALIZED (
         SELECT l.id FROM latest l JOIN app.webhook_queue q ON q.id = l.id ORDER BY l.id DESC LIMIT $2
     ),
     line AS (
         SELECT q.id
         FROM app.webhook_queue q
         WHERE (SELECT count(*) FROM near) < $2
               AND q.destination_id = $3 AND q.turn >= (SELECT o.key FROM app.webhook_oldest o)
         OFFSET 0
     )
     SELECT d.id
     FROM (
         SELECT n.id FROM near n
         UNION ALL
         SELECT q.id FROM line q WHERE q.id < (SELECT min(l.id) FROM latest l)
     ) d
     ORDER BY d.id DESC"
);
/// Index webhook_endings_failed_destination, backwards.
static FAILED_THERE: Sql = listing!(
    "SELECT d.id FROM app.webhook_endings d WHERE d.failure_kind IS NOT NULL AND ",
    there!("d.failed_destination_id")
);
/// Index webhook_events_destination, backwards. Steps over what is newer and failed or pending there, about a microsecond
/// each: an index of deliveries by destination would cost every settle.
static DELIVERED_THERE: Sql = listing!(
    "SELECT d.id FROM app.webhook_events d
     WHERE EXISTS (SELECT FROM app.webhook_endings x WHERE x.id = d.id AND x.failure_kind IS NULL) AND ",
    there!("d.destination_id")
);

static DESTINATION_OF: Sql = Sql {
    text: "SELECT d.id FROM app.webhook_destinations d WHERE d.kind = 'url' AND d.url = $1",
    types: &[Type::TEXT],
};

/// Index webhook_attempts_event, in every partition.
static HISTORY: Sql = Sql {
    text: "
SELECT a.token, a.attempt, a.trigger, a.started_at, a.duration_us, a.http_status, a.error_class, a.excerpt, a.worker
FROM app.webhook_attempts a
WHERE a.event_key = (SELECT e.id FROM app.webhook_events e WHERE e.event_id = $1)
ORDER BY a.recorded_at, a.attempt",
    types: &[Type::TEXT],
};

static AUDIT: Sql = Sql {
    text: "
SELECT a.action, a.actor, a.at, a.reason
FROM app.webhook_audit a
WHERE a.event_key = (SELECT e.id FROM app.webhook_events e WHERE e.event_id = $1)
ORDER BY a.id",
    types: &[Type::TEXT],
};

static DESTINATION: Sql = Sql {
    text: "
SELECT d.url, CASE WHEN d.circuit_until > app.webhook_now() THEN d.circuit END,
       CASE WHEN d.paused_until > app.webhook_now() THEN d.paused_until END, d.failing_since
FROM app.webhook_destinations d
WHERE d.id = $1",
    types: &[Type::INT8],
};

pub(crate) async fn overview(store: &Shared) -> Result<Overview, StoreError> {
    let overview = store.sessions.operate.with(async |session| {
        let rows = session.transact(&OVERVIEW, &[]).await?;
        let row = rows.first().expect("the statement answers with one row");
        let number =
            |index| Ok::<_, tokio_postgres::Error>(u64::try_from(row.try_get::<_, i64>(index)?).unwrap_or(0));
        let pending = number(0)?;
        let (not_due, leased) = (number(4)?, number(5)?);
        let oldest: Option<Moment> = row.try_get(6)?;
        let now: Moment = row.try_get(7)?;
        Ok(Overview {
            pending,
            pending_ready: pending.saturating_sub(not_due).saturating_sub(leased),
            retrying: number(1)?,
            failed: number(3)?,
            delivered: number(2)?,
            oldest_pending_age: oldest.map(|oldest| now.0.since(oldest.0)),
        })
    });
    overview.await
}

pub(crate) async fn dead_letters(store: &Shared, page: &PageRequest) -> Result<Page<EventView>, StoreError> {
    /// Later than any row.
    const END_OF_TIME: i64 = 253_402_300_800_000_000;
    let (at, key) = page.after.map_or((END_OF_TIME, i64::MAX), |after| (after.at.as_micros(), after.key.0));
    let rows = store
        .sessions
        .operate
        .with(async |session| session.transact(&DEAD_LETTERS, &[&at, &key, &one_more(page)]).await)
        .await?;
    paged(&rows, page, |event| event.updated_at)
}

pub(crate) async fn events(
    store: &Shared,
    query: &EventQuery,
    page: &PageRequest,
) -> Result<Page<EventView>, StoreError> {
    let sql = match (query.status, query.destination.is_some()) {
        (None, false) => &ANY,
        (Some(DeliveryStatus::Pending), false) => &PENDING,
        (Some(DeliveryStatus::Failed), false) => &FAILED,
        (Some(DeliveryStatus::Delivered), false) => &DELIVERED,
        (None, true) => &ANY_THERE,
        (Some(DeliveryStatus::Pending), true) => &PENDING_THERE,
        (Some(DeliveryStatus::Failed), true) => &FAILED_THERE,
        (Some(DeliveryStatus::Delivered), true) => &DELIVERED_THERE,
    };
    let key = page.after.map_or(i64::MAX, |after| after.key.0);
    let rows = store.sessions.operate.with(async |session| {
        let destination: Option<i64> = match &query.destination {
            None => None,
            Some(url) => match session.query(&DESTINATION_OF, &[&url.as_str()]).await?.first() {
                Some(row) => Some(row.try_get(0)?),
                None => return Ok(Vec::new()),
            },
        };
        session.transact(sql, &[&key, &one_more(page), &destination]).await
    });
    paged(&rows.await?, page, |event| event.created_at)
}

/// One row more than the page holds tells whether there is a next.
fn one_more(page: &PageRequest) -> i64 {
    i64::try_from(page.limit.get()).expect("pages are small") + 1
}

fn paged(
    rows: &[Row],
    page: &PageRequest,
    at: impl Fn(&EventView) -> Timestamp,
) -> Result<Page<EventView>, StoreError> {
    let limit = page.limit.get();
    let items: Vec<EventView> = rows
        .iter()
        .take(limit)
        .map(view)
        .collect::<Result<_, _>>()
        .map_err(|error| crate::error::refusal(&error))?;
    let last = items.last().filter(|_| rows.len() > limit);
    let next = last.map(|event| Cursor { at: at(event), key: event.key });
    Ok(Page { items, next })
}

pub(crate) async fn event(store: &Shared, event_id: &EventId) -> Result<EventDetail, StoreError> {
    let detail = store.sessions.operate.with(async |session| {
        let (event, history, audit) = (
            session.prepare(&BY_EVENT_ID).await?,
            session.prepare(&HISTORY).await?,
            session.prepare(&AUDIT).await?,
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
            event: view(event)?,
            history: history.iter().map(attempt).collect::<Result<_, _>>()?,
            audit: audit.iter().map(audited).collect::<Result<_, _>>()?,
        }))
    });
    detail.await?.ok_or_else(|| StoreError::EventNotFound { event_id: event_id.clone() })
}

fn attempt(row: &Row) -> Result<AttemptView, tokio_postgres::Error> {
    let duration_us: i64 = row.try_get(4)?;
    Ok(AttemptView {
        token: LeaseToken::from_uuid(row.try_get(0)?),
        attempt: count(row.try_get(1)?),
        trigger: Trigger::from_word(row.try_get(2)?).unwrap_or(Trigger::Scheduled),
        started_at: row.try_get::<_, Moment>(3)?.0,
        duration: Duration::from_micros(u64::try_from(duration_us).unwrap_or(0)),
        http_status: row.try_get::<_, Option<i16>>(5)?.and_then(|status| u16::try_from(status).ok()),
        error_class: row.try_get::<_, Option<&str>>(6)?.and_then(ErrorClass::from_word),
        excerpt: Excerpt::stored(row.try_get(7)?),
        worker: WorkerId::stored(row.try_get(8)?),
    })
}

fn audited(row: &Row) -> Result<AuditView, tokio_postgres::Error> {
    Ok(AuditView {
        action: ManualAction::from_word(row.try_get(0)?).unwrap_or(ManualAction::Requeue),
        actor: row.try_get(1)?,
        at: row.try_get::<_, Moment>(2)?.0,
        reason: row.try_get(3)?,
    })
}

pub(crate) async fn destination(store: &Shared, id: DestinationId) -> Result<DestinationState, StoreError> {
    let rows =
        store.sessions.operate.with(async |session| session.transact(&DESTINATION, &[&id.0]).await).await?;
    let row = rows.first().ok_or(StoreError::DestinationNotFound { id: id.0 })?;
    let state = || {
        let moment = |index| Ok(row.try_get::<_, Option<Moment>>(index)?.map(|Moment(at)| at));
        let circuit = row.try_get::<_, Option<&str>>(1)?.and_then(CircuitState::from_word);
        Ok(DestinationState {
            id,
            url: DestinationUrl::stored(row.try_get(0)?),
            circuit: circuit.unwrap_or(CircuitState::Closed),
            paused_until: moment(2)?,
            failing_since: moment(3)?,
        })
    };
    state().map_err(|error: tokio_postgres::Error| crate::error::refusal(&error))
}
