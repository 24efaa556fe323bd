//! Destinations for operators: lists by state, and one destination with the events that wait for it. Events are counted
//! up to a limit, so that no statement costs more as the backlog grows.

use futures_util::future::join;
use posthaste_claimable::RETRY_POSITION_MIN;
use posthaste_domain::DestinationId;
use posthaste_store::{
    DESTINATION_AUDIT_MAX, DestinationAction, DestinationAudit, DestinationDetail, DestinationState,
    DestinationView, LISTED_PENDING_COUNT_MAX, PENDING_COUNT_MAX, Page, PageRequest, PendingCount,
    StoreError,
};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::StoreState;
use crate::convert::PgTimestamp;
use crate::destination::{join_circuit, parse_status, status_columns};
use crate::error::store_error;
use crate::session::Sql;

/// Builds a statement that reads the destinations of the query `$ids`, with their pending events, at most $3 of each. $4
/// is the lowest queue position of a retry; the parameters of `$ids` are $1 and $2.
///
/// Pending events and the last retry: index webhook_queue_destination_position. Leases: webhook_claims, then the queue by
/// key.
macro_rules! view_destinations {
    ($($ids:expr),+) => {
        Sql {
            text: concat!(
                "
WITH listed AS MATERIALIZED (", $($ids,)+ "),
leases AS MATERIALIZED (
    SELECT q.destination_id, count(*) AS in_flight
    FROM app.webhook_claims l
    CROSS JOIN LATERAL unnest(l.event_keys) AS k (key)
    JOIN app.webhook_queue q ON q.id = k.key AND q.lease_claim = l.id
    WHERE q.lease_until > app.webhook_now()
    GROUP BY q.destination_id
)
SELECT ",
                status_columns!(),
                ",
       coalesce(l.in_flight, 0), p.counted, e.created_at, r.last_error, app.webhook_now()
FROM listed i
JOIN app.webhook_destinations d ON d.id = i.id
",
                join_circuit!(),
                "
LEFT JOIN leases l ON l.destination_id = d.id
CROSS JOIN LATERAL (
    SELECT count(*) AS counted, min(q.id) AS oldest
    FROM (
        SELECT q.id
        FROM app.webhook_queue q
        WHERE q.destination_id = d.id AND q.queue_position >= (SELECT w.min_key FROM app.webhook_pending_watermark w)
        LIMIT $3
    ) q
) p
LEFT JOIN app.webhook_events e ON e.id = p.oldest
LEFT JOIN LATERAL (
    SELECT q.last_error
    FROM app.webhook_queue q
    WHERE q.destination_id = d.id AND q.queue_position >= $4 AND q.lease_until IS NULL
    ORDER BY q.queue_position DESC
    LIMIT 1
) r ON true
ORDER BY d.id"
            ),
            types: &[Type::INT8, Type::INT8, Type::INT8, Type::INT8],
        }
    };
}

/// Conditions on a destination `d`. They mirror [`DestinationStatus::state`](posthaste_store::DestinationStatus::state).
macro_rules! is_not_paused {
    () => {
        "(d.paused_until IS NULL OR d.paused_until <= app.webhook_now())"
    };
}
macro_rules! has_no_open_circuit {
    () => {
        "NOT EXISTS (
        SELECT FROM app.webhook_circuits c WHERE c.destination_id = d.id AND c.expires_at > app.webhook_now()
    )"
    };
}

static ONE: Sql = view_destinations!("SELECT $1::bigint AS id WHERE $2::bigint > 0");
/// Uses index webhook_destinations_id.
static ALL: Sql =
    view_destinations!("SELECT d.id FROM app.webhook_destinations d WHERE d.id > $1 ORDER BY d.id LIMIT $2");
/// Uses index webhook_destinations_id. Skips destinations in other states.
static OK: Sql = view_destinations!(
    "SELECT d.id FROM app.webhook_destinations d
     WHERE d.id > $1 AND d.failing_since IS NULL AND ",
    is_not_paused!(),
    " AND ",
    has_no_open_circuit!(),
    " ORDER BY d.id LIMIT $2"
);
/// Uses index webhook_destinations_failing. Skips failing destinations that are held.
static FAILING: Sql = view_destinations!(
    "SELECT d.id FROM app.webhook_destinations d
     WHERE d.id > $1 AND d.failing_since IS NOT NULL AND ",
    is_not_paused!(),
    " AND ",
    has_no_open_circuit!(),
    " ORDER BY d.id LIMIT $2"
);
/// Uses index webhook_circuits_destination.
static CIRCUIT_OPEN: Sql = view_destinations!(
    "SELECT DISTINCT c.destination_id AS id
     FROM app.webhook_circuits c
     JOIN app.webhook_destinations d ON d.id = c.destination_id
     WHERE c.destination_id > $1 AND c.expires_at > app.webhook_now() AND ",
    is_not_paused!(),
    " ORDER BY c.destination_id LIMIT $2"
);
/// Uses index webhook_destinations_paused, and sorts the destinations that are paused now. OFFSET 0 keeps the planner
/// from walking all destinations by id instead.
static PAUSED: Sql = view_destinations!(
    "SELECT p.id
     FROM (SELECT d.id FROM app.webhook_destinations d
           WHERE d.paused_until > app.webhook_now() AND d.disabled_at IS NULL OFFSET 0) p
     WHERE p.id > $1
     ORDER BY p.id LIMIT $2"
);
/// Uses index webhook_destinations_disabled.
static DISABLED: Sql = view_destinations!(
    "SELECT d.id FROM app.webhook_destinations d
     WHERE d.id > $1 AND d.disabled_at IS NOT NULL
     ORDER BY d.id LIMIT $2"
);

/// Reads the latest operator actions on a destination, latest first. Uses index webhook_destination_audit_destination.
static AUDIT: Sql = Sql {
    text: "
SELECT a.action, a.actor, a.at, a.paused_until, a.reason
FROM app.webhook_destination_audit a
WHERE a.destination_id = $1
ORDER BY a.id DESC
LIMIT $2",
    types: &[Type::INT8, Type::INT8],
};

/// Lists destinations by id.
pub(crate) async fn list(
    store: &StoreState,
    state: Option<DestinationState>,
    page: &PageRequest<DestinationId>,
) -> Result<Page<DestinationView, DestinationId>, StoreError> {
    let sql = match state {
        None => &ALL,
        Some(DestinationState::Ok) => &OK,
        Some(DestinationState::Failing) => &FAILING,
        Some(DestinationState::CircuitOpen) => &CIRCUIT_OPEN,
        Some(DestinationState::Paused) => &PAUSED,
        Some(DestinationState::Disabled) => &DISABLED,
    };
    let limit = page.limit.get();
    let after = page.after.map_or(i64::MIN, |after| after.0);
    // One more than the page holds, which shows whether there is a next page.
    let rows_max = i64::try_from(limit).expect("a page limit is small") + 1;
    let rows = store.sessions.operate.with(async |session| {
        let counted_max = rows_to_count(LISTED_PENDING_COUNT_MAX);
        session.transact(sql, &[&after, &rows_max, &counted_max, &RETRY_POSITION_MIN]).await
    });
    let rows = rows.await?;
    let items: Vec<DestinationView> = rows
        .iter()
        .take(limit)
        .map(|row| parse_view(row, LISTED_PENDING_COUNT_MAX))
        .collect::<Result<_, _>>()
        .map_err(|error| store_error(&error))?;
    let next = items.last().filter(|_| rows.len() > limit).map(|last| last.status.id);
    Ok(Page { items, next })
}

/// Reads one destination with the latest actions of operators on it, from one snapshot.
pub(crate) async fn destination(
    store: &StoreState,
    id: DestinationId,
) -> Result<DestinationDetail, StoreError> {
    let detail = store.sessions.operate.with(async |session| {
        let (view, audit) = (session.prepare(&ONE).await?, session.prepare(&AUDIT).await?);
        let counted_max = rows_to_count(PENDING_COUNT_MAX);
        let audit_max = i64::try_from(DESTINATION_AUDIT_MAX).unwrap_or(i64::MAX);
        let (view, audit) = session
            .snapshot(async {
                let (view, audit) = join(
                    session.send(&view, &[&id.0, &1_i64, &counted_max, &RETRY_POSITION_MIN]),
                    session.send(&audit, &[&id.0, &audit_max]),
                )
                .await;
                Ok((view?, audit?))
            })
            .await?;
        let Some(view) = view.first() else { return Ok(None) };
        Ok(Some(DestinationDetail {
            destination: parse_view(view, PENDING_COUNT_MAX)?,
            audit: audit.iter().rev().map(parse_audit).collect::<Result<_, _>>()?,
        }))
    });
    detail.await?.ok_or(StoreError::DestinationNotFound { id: id.0 })
}

/// Returns the rows to read for a count up to `count_max`: one more, which shows that there are more.
fn rows_to_count(count_max: u64) -> i64 {
    i64::try_from(count_max).unwrap_or(i64::MAX).saturating_add(1)
}

/// Parses a row of [`view_destinations`].
fn parse_view(row: &Row, count_max: u64) -> Result<DestinationView, tokio_postgres::Error> {
    let status = parse_status(row)?;
    let number =
        |index| Ok::<_, tokio_postgres::Error>(u64::try_from(row.try_get::<_, i64>(index)?).unwrap_or(0));
    let (oldest, now): (Option<PgTimestamp>, PgTimestamp) = (row.try_get(17)?, row.try_get(19)?);
    let circuit_error = status.circuit.as_ref().and_then(|circuit| circuit.last_error.clone());
    Ok(DestinationView {
        in_flight: number(15)?,
        pending: PendingCount::of(number(16)?, count_max, oldest.map(|oldest| now.0.since(oldest.0))),
        last_error: circuit_error.or(row.try_get(18)?),
        status,
    })
}

/// Parses a row of [`AUDIT`].
fn parse_audit(row: &Row) -> Result<DestinationAudit, tokio_postgres::Error> {
    Ok(DestinationAudit {
        action: DestinationAction::from_name(row.try_get(0)?).unwrap_or(DestinationAction::Pause),
        actor: row.try_get(1)?,
        at: row.try_get::<_, PgTimestamp>(2)?.0,
        until: row.try_get::<_, Option<PgTimestamp>>(3)?.map(|PgTimestamp(until)| until),
        reason: row.try_get(4)?,
    })
}
