//! Destinations: operators' pauses and resumes, the circuits that workers report, and the destination's status.

use futures_util::future::join;
use posthaste_domain::{ApplicationId, DestinationId, DestinationUrl, DisableReason};
use posthaste_store::{
    CircuitReport, DestinationAction, DestinationStatus, DisabledEndpoint, OpenCircuit, OperatorPause,
    PauseRequest, ProbeResponse, ReceiverPause, StoreError,
};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::StoreState;
use crate::convert::{PgTimestamp, micros};
use crate::error::store_error;
use crate::registry;
use crate::session::{Params, Session, Sql};

/// The columns that [`parse_status`] reads, of a destination `d` and its merged circuit `c`. Ended pauses are left out.
macro_rules! status_columns {
    () => {
        "d.id, d.url,
       CASE WHEN d.receiver_paused_until > app.webhook_now() THEN d.receiver_paused_at END, d.receiver_paused_until,
       CASE WHEN coalesce(d.operator_paused_until > app.webhook_now(), true) THEN d.operator_paused_at END,
       d.operator_paused_until, d.operator_paused_by, d.operator_pause_reason,
       c.since, c.next_probe_at, c.last_error, d.failing_since, d.app_id, d.disabled_at, d.disabled_reason"
    };
}

/// Joins the circuits of all workers to a destination `d`, merged as `c`. Expired reports are left out. Uses index
/// webhook_circuits_destination.
macro_rules! join_circuit {
    () => {
        "LEFT JOIN LATERAL (
    SELECT min(c.since) AS since, min(c.next_probe_at) AS next_probe_at,
           (array_agg(c.last_error ORDER BY c.worker COLLATE \"C\") FILTER (WHERE c.last_error IS NOT NULL))[1] AS last_error
    FROM app.webhook_circuits c
    WHERE c.destination_id = d.id AND c.expires_at > app.webhook_now()
) c ON true"
    };
}

pub(crate) use {join_circuit, status_columns};

/// Reads what decides whether events are sent to a destination.
static STATUS: Sql = Sql {
    text: concat!(
        "
SELECT ",
        status_columns!(),
        "
FROM app.webhook_destinations d
",
        join_circuit!(),
        "
WHERE d.id = $1"
    ),
    types: &[Type::INT8],
};

/// Pauses the destination $1 for $2 microseconds, or without end if $2 is NULL.
static PAUSE: Sql = Sql {
    text: "
WITH paused AS (
    UPDATE app.webhook_destinations d
    SET operator_paused_at = app.webhook_now(),
        operator_paused_until = app.webhook_now() + $2 * interval '1 microsecond',
        operator_paused_by = $4,
        operator_pause_reason = $5,
        paused_until = greatest(
            coalesce(app.webhook_now() + $2 * interval '1 microsecond', 'infinity'), d.receiver_paused_until,
            CASE WHEN d.disabled_at IS NOT NULL THEN timestamptz 'infinity' END
        )
    WHERE d.id = $1
    RETURNING d.id, d.operator_paused_until
)
INSERT INTO app.webhook_destination_audit (destination_id, action, actor, at, paused_until, reason)
SELECT id, $3, $4, app.webhook_now(), operator_paused_until, $5 FROM paused
RETURNING 1",
    types: &[Type::INT8, Type::INT8, Type::TEXT, Type::TEXT, Type::TEXT],
};

/// Ends the pauses of the destination $1, and forgets its circuits. A disabled endpoint stays disabled.
static RESUME: Sql = Sql {
    text: "
WITH resumed AS (
    UPDATE app.webhook_destinations d
    SET paused_until = CASE WHEN d.disabled_at IS NOT NULL THEN timestamptz 'infinity' END, receiver_paused_at = NULL, receiver_paused_until = NULL, operator_paused_at = NULL,
        operator_paused_until = NULL, operator_paused_by = NULL, operator_pause_reason = NULL,
        resumed_at = app.webhook_now()
    WHERE d.id = $1
    RETURNING d.id
),
closed AS (
    DELETE FROM app.webhook_circuits c USING resumed r WHERE c.destination_id = r.id
),
audit AS (
    INSERT INTO app.webhook_destination_audit (destination_id, action, actor, at)
    SELECT id, $2, $3, app.webhook_now() FROM resumed
)
SELECT FROM resumed",
    types: &[Type::INT8, Type::TEXT, Type::TEXT],
};

/// Returns whether an event of the destination $1 is pending and without a lease. Uses index
/// webhook_queue_destination_position.
static HAS_WAITING_EVENT: Sql = Sql {
    text: "
SELECT EXISTS (
    SELECT FROM app.webhook_queue q
    WHERE q.destination_id = $1 AND q.queue_position >= (SELECT w.min_key FROM app.webhook_pending_watermark w)
          AND q.lease_until IS NULL
)",
    types: &[Type::INT8],
};

/// Asks for a probe of the destination $1. Two requests differ in their times.
static REQUEST_PROBE: Sql = Sql {
    text: "
WITH requested AS (
    UPDATE app.webhook_destinations d
    SET probe_requested_at = greatest(app.webhook_now(), d.probe_requested_at + interval '1 microsecond')
    WHERE d.id = $1
    RETURNING d.id
)
INSERT INTO app.webhook_destination_audit (destination_id, action, actor, at)
SELECT id, $2, $3, app.webhook_now() FROM requested",
    types: &[Type::INT8, Type::TEXT, Type::TEXT],
};

/// Stores the open circuits of workers, and removes those without `open_us`, which have closed. A circuit that opened
/// before its destination was resumed is not stored: the worker has not learned of the resume yet.
static REPORT_CIRCUITS: Sql = Sql {
    text: "
WITH reported AS MATERIALIZED (
    SELECT *
    FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[], $5::text[], $6::bigint[])
         AS r (destination_id, worker, open_us, probe_us, last_error, expires_us)
),
closed AS (
    DELETE FROM app.webhook_circuits c
    USING reported r
    WHERE r.open_us IS NULL AND c.destination_id = r.destination_id AND c.worker = r.worker
)
INSERT INTO app.webhook_circuits (destination_id, worker, since, next_probe_at, last_error, reported_at, expires_at)
SELECT d.id, r.worker, app.webhook_now() - r.open_us * interval '1 microsecond',
       app.webhook_now() + r.probe_us * interval '1 microsecond', r.last_error, app.webhook_now(),
       app.webhook_now() + r.expires_us * interval '1 microsecond'
FROM reported r
JOIN app.webhook_destinations d ON d.id = r.destination_id
WHERE r.open_us IS NOT NULL
      AND coalesce(d.resumed_at < app.webhook_now() - r.open_us * interval '1 microsecond', true)
ORDER BY d.id, r.worker
ON CONFLICT (destination_id, worker) DO UPDATE
SET since = excluded.since, next_probe_at = excluded.next_probe_at, last_error = excluded.last_error,
    reported_at = excluded.reported_at, expires_at = excluded.expires_at",
    types: &[
        Type::INT8_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT8_ARRAY,
    ],
};

pub(crate) async fn status(store: &StoreState, id: DestinationId) -> Result<DestinationStatus, StoreError> {
    let rows = store.sessions.operate.with(async |session| session.transact(&STATUS, &[&id.0]).await).await?;
    only_status(id, &rows)
}

/// Pauses a destination, in place of an earlier pause by an operator.
pub(crate) async fn pause(
    store: &StoreState,
    id: DestinationId,
    pause: &PauseRequest,
) -> Result<DestinationStatus, StoreError> {
    let duration = pause.duration().map(micros);
    let action = DestinationAction::Pause.as_str();
    change(store, id, &PAUSE, &[&id.0, &duration, &action, &pause.actor(), &pause.reason()]).await
}

/// Ends the pauses and the circuits of a destination, and wakes the workers.
pub(crate) async fn resume(
    store: &StoreState,
    id: DestinationId,
    actor: &str,
) -> Result<DestinationStatus, StoreError> {
    let action = DestinationAction::Resume.as_str();
    let status = change(store, id, &RESUME, &[&id.0, &action, &actor]).await?;
    store.wake_all();
    Ok(status)
}

/// Asks for a probe of a destination whose circuit is open, and wakes the workers.
pub(crate) async fn probe(
    store: &StoreState,
    id: DestinationId,
    actor: &str,
) -> Result<ProbeResponse, StoreError> {
    let probed = registry::change(&store.sessions.operate, async |session| {
        let rows = session.query(&STATUS, &[&id.0]).await?;
        let row = rows.first().ok_or(StoreError::DestinationNotFound { id: id.0 })?;
        let status = parse_status(row)?;
        let rows = session.query(&HAS_WAITING_EVENT, &[&id.0]).await?;
        let has_waiting_event = rows.first().map_or(Ok(false), |row| row.try_get(0))?;
        let refusal = status.refuse_probe(has_waiting_event);
        if refusal.is_none() {
            let action = DestinationAction::Probe.as_str();
            session.query(&REQUEST_PROBE, &[&id.0, &action, &actor]).await?;
        }
        Ok(ProbeResponse { status, refusal })
    });
    let probed = probed.await?;
    store.wake_all();
    Ok(probed)
}

/// Runs a statement and then reads the destination's status, in one transaction.
async fn change(
    store: &StoreState,
    id: DestinationId,
    sql: &Sql,
    params: Params<'_>,
) -> Result<DestinationStatus, StoreError> {
    let changed = store.sessions.operate.with(async |session| {
        let (change, read) = (session.prepare(sql).await?, session.prepare(&STATUS).await?);
        session
            .transaction(async {
                let (changed, rows) =
                    join(session.send(&change, params), session.send(&read, &[&id.0])).await;
                changed?;
                rows
            })
            .await
    });
    only_status(id, &changed.await?)
}

fn only_status(id: DestinationId, rows: &[Row]) -> Result<DestinationStatus, StoreError> {
    let row = rows.first().ok_or(StoreError::DestinationNotFound { id: id.0 })?;
    parse_status(row).map_err(|error| store_error(&error))
}

/// Parses the columns of [`status_columns`], the first columns of a row.
pub(crate) fn parse_status(row: &Row) -> Result<DestinationStatus, tokio_postgres::Error> {
    let timestamp = |index: usize| -> Result<_, tokio_postgres::Error> {
        Ok(row.try_get::<_, Option<PgTimestamp>>(index)?.map(|PgTimestamp(at)| at))
    };
    let receiver_pause = timestamp(2)?.zip(timestamp(3)?).map(|(at, until)| ReceiverPause { at, until });
    let operator_pause = match timestamp(4)? {
        None => None,
        Some(at) => {
            Some(OperatorPause { actor: row.try_get(6)?, at, until: timestamp(5)?, reason: row.try_get(7)? })
        }
    };
    let circuit = match timestamp(8)?.zip(timestamp(9)?) {
        None => None,
        Some((since, next_probe_at)) => {
            Some(OpenCircuit { since, next_probe_at, last_error: row.try_get(10)? })
        }
    };
    let reason = row.try_get::<_, Option<&str>>(14)?.and_then(DisableReason::from_name);
    let disabled = timestamp(13)?.zip(reason).map(|(at, reason)| DisabledEndpoint { at, reason });
    Ok(DestinationStatus {
        id: DestinationId(row.try_get(0)?),
        url: DestinationUrl::from_stored(row.try_get(1)?),
        app: Some(row.try_get(12)?).filter(|id| *id != 0).map(ApplicationId),
        disabled,
        operator_pause,
        receiver_pause,
        circuit,
        failing_since: timestamp(11)?,
    })
}

/// Stores the circuits that workers report.
pub(crate) async fn report_circuits(store: &StoreState, reports: &[CircuitReport]) -> Result<(), StoreError> {
    let reports = CircuitReport::last_of_each(reports);
    if reports.is_empty() {
        return Ok(());
    }
    let destinations: Vec<i64> = reports.iter().map(|report| report.destination.0).collect();
    let workers: Vec<&str> = reports.iter().map(|report| report.worker.as_str()).collect();
    let open = || reports.iter().map(|report| report.open.as_ref());
    let open_for: Vec<Option<i64>> = open().map(|open| Some(micros(open?.open_for))).collect();
    let next_probe_in: Vec<Option<i64>> = open().map(|open| Some(micros(open?.next_probe_in))).collect();
    let errors: Vec<Option<&str>> = open().map(|open| open?.last_error.as_deref()).collect();
    let expires_in: Vec<Option<i64>> = open().map(|open| Some(micros(open?.expires_in))).collect();
    let write = async |session: &Session| {
        let params: Params<'_> = &[&destinations, &workers, &open_for, &next_probe_in, &errors, &expires_in];
        session.transact(&REPORT_CIRCUITS, params).await
    };
    store.sessions.dispatch.with(write).await.map(drop)
}
