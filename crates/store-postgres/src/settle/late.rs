//! Late results: those of workers that had lost their leases. They change no event, but its history shows them, because the
//! receiver did get the request.
//!
//! A late result looks like the replay of an applied one until the attempts have been read. The settle cannot read them in
//! its own statement: it may have waited for the first transaction of a replayed settlement, and its snapshot would not
//! show that transaction's attempts. A further statement in every settle would cost a round trip, or a second copy of all
//! results. So late results get a transaction of their own, and a settle without late results does not pay for them. A
//! caller without a response repeats the whole call, so an error between the two commits loses no result.

use std::collections::HashSet;

use futures_util::future::join;
use posthaste_domain::{LeaseToken, WorkerId};
use posthaste_store::Settlement;
use tokio_postgres::types::Type;

use super::Scope;
use super::columns::LateResults;
use crate::session::{Session, Sql};

/// Locks events in key order. A repetition of a call then waits for the first one and sees what it has recorded, and a
/// discard waits, too. Uses index webhook_events_id.
static LOCK_EVENTS: Sql = Sql {
    text: "SELECT true FROM app.webhook_events e WHERE e.id = ANY ($1) ORDER BY e.id FOR NO KEY UPDATE",
    types: &[Type::INT8_ARRAY],
};

/// Records results as not applied, unless their leases have one on record or their events no longer exist. Returns the batch
/// indexes of results that were applied before: replays. The attempts of one batch get distinct times, so that a history shows
/// them in the order of the batch. Uses indexes webhook_events_id, and webhook_attempts_event in every partition.
static RECORD_LATE: Sql = Sql {
    text: "
WITH late AS MATERIALIZED (
    SELECT i.*, e.id AS event_key, CASE WHEN e.message_key IS NOT NULL THEN e.destination_id END AS endpoint_id, a.applied
    FROM unnest(
        $1::bigint[], $2::uuid[], $3::bigint[], $4::bigint[], $5::smallint[], $6::text[], $7::integer[],
        $8::integer[], $9::text[], $10::text[]
    ) AS i (key, claim, started_us, duration_us, http_status, excerpt, n, attempt, error_class, trigger)
    LEFT JOIN app.webhook_events e ON e.id = i.key
    LEFT JOIN app.webhook_attempts a ON a.event_key = i.key AND a.lease_claim = i.claim
),
recorded AS (
    INSERT INTO app.webhook_attempts (
        event_key, lease_claim, recorded_at, started_at, duration_us, attempt, http_status, applied, trigger, worker_id,
        error_class, endpoint_id, excerpt
    )
    SELECT event_key, claim, app.webhook_now() + n * interval '1 microsecond',
           app.webhook_now() - started_us * interval '1 microsecond', duration_us, attempt, http_status, false, trigger, $11,
           error_class, endpoint_id, excerpt
    FROM late
    WHERE event_key IS NOT NULL AND applied IS NULL
)
SELECT n FROM late WHERE applied",
    types: &[
        Type::INT8_ARRAY,
        Type::UUID_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT2_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT4_ARRAY,
        Type::INT4_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT,
    ],
};

/// Records the settlements that were not applied. Returns the lease tokens of those that an earlier call had applied.
pub(super) async fn record(
    session: &Session,
    scope: Scope,
    worker: &WorkerId,
    batch: &[Settlement],
    applied: &HashSet<LeaseToken>,
) -> Result<HashSet<LeaseToken>, tokio_postgres::Error> {
    let (mut late, mut seen) = (LateResults::default(), applied.clone());
    for (batch_index, settlement) in batch.iter().enumerate() {
        if seen.insert(settlement.transition.token()) {
            late.push(batch_index, settlement);
        }
    }
    if late.keys().is_empty() {
        return Ok(HashSet::new());
    }
    let worker = worker.as_str();
    let mut params = Vec::with_capacity(RECORD_LATE.types.len());
    params.extend(late.params());
    params.push(&worker);
    let (lock, record) = (session.prepare(&LOCK_EVENTS).await?, session.prepare(&RECORD_LATE).await?);
    // The statements are sent together and run in order: the second has a new snapshot.
    let work = async {
        let (locked, rows) = join(session.send(&lock, &[late.keys()]), session.send(&record, &params)).await;
        locked?;
        rows
    };
    let rows = match scope {
        Scope::OwnTransaction => session.transaction(work).await?,
        Scope::OpenTransaction => work.await?,
    };
    rows.iter().map(|row| Ok(super::token_at(batch, row.try_get(0)?))).collect()
}
