//! Requests with idempotency keys or chosen event ids: decides which are stored, replayed or refused.

use std::collections::{HashMap, HashSet};

use futures_util::future::{join3, join4};
use posthaste_domain::{EventId, NewEvent};
use posthaste_store::{EnqueueRequest, EnqueueResponse, StoreError};
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use super::insert::{Insert, MessageIds, pending_receipts, stored_responses};
use super::write::RequestResults;
use crate::StoreState;
use crate::convert::{PgTimestamp, micros};
use crate::session::{Begin, Session, Sql};

/// Locks the idempotency keys of a batch until the transaction ends. Another transaction that uses one of them waits
/// until this one has committed. Locks are taken in one order, so that two batches cannot deadlock.
static LOCK_KEYS: Sql = Sql {
    text: "
SELECT pg_advisory_xact_lock(lock) FROM (
    SELECT DISTINCT hashtextextended(key, 7526) AS lock FROM unnest($1::text[]) AS k (key) ORDER BY lock
) locks",
    types: &[Type::TEXT_ARRAY],
};

/// Reads the earlier uses of idempotency keys, unless they have expired. Uses index webhook_idempotency_key.
static SELECT_KEYS: Sql = Sql {
    text: "
SELECT i.key, i.fingerprint, i.created_at, i.event_ids
FROM app.webhook_idempotency i
WHERE i.key = ANY ($1) AND i.expires_at > app.webhook_now()",
    types: &[Type::TEXT_ARRAY],
};

/// Returns those of the given event ids that are taken, by events or by discarded ones. Uses indexes
/// webhook_events_event_id and webhook_discarded_events_event_id.
static SELECT_TAKEN_EVENT_IDS: Sql = Sql {
    text: "
SELECT e.event_id FROM app.webhook_events e WHERE e.event_id = ANY ($1)
UNION ALL
SELECT d.event_id FROM app.webhook_discarded_events d WHERE d.event_id = ANY ($1)",
    types: &[Type::TEXT_ARRAY],
};

/// Stores keys with the event ids of their requests. `$5` has the event ids of all keys, and `ids_from` and `ids_to`
/// delimit those of one key: PostgreSQL's arrays of arrays must all have one length. A key has the time of its events, so
/// that a replay returns the receipts of the first request. Uses index webhook_events_event_id.
static INSERT_KEYS: Sql = Sql {
    text: "
INSERT INTO app.webhook_idempotency (key, fingerprint, expires_at, created_at, event_ids)
SELECT k.key, k.fingerprint, app.webhook_now() + k.keep_us * interval '1 microsecond',
       coalesce((SELECT e.created_at FROM app.webhook_events e WHERE e.event_id = ($5::text[])[k.ids_from]), app.webhook_now()),
       ($5::text[])[k.ids_from : k.ids_to]
FROM unnest($1::text[], $2::bytea[], $3::bigint[], $4::integer[], $6::integer[])
     AS k (key, fingerprint, keep_us, ids_from, ids_to)
ON CONFLICT (key) DO UPDATE
SET fingerprint = excluded.fingerprint, expires_at = excluded.expires_at, created_at = excluded.created_at,
    event_ids = excluded.event_ids",
    types: &[
        Type::TEXT_ARRAY,
        Type::BYTEA_ARRAY,
        Type::INT8_ARRAY,
        Type::INT4_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT4_ARRAY,
    ],
};

/// An earlier use of an idempotency key.
struct UsedKey {
    fingerprint: Vec<u8>,
    first_use: FirstUse,
}

/// The request that used a key first.
enum FirstUse {
    /// A request of an earlier call, which had this response.
    Stored(EnqueueResponse),
    /// A request of the same batch, by its index.
    InBatch(usize),
}

/// What to do with one request of a batch.
enum Decision {
    Store,
    /// Return the response of an earlier call.
    Replay(EnqueueResponse),
    /// Return the response of the request with this index, which used the key first.
    ReplayInBatch(usize),
    Refuse(StoreError),
}

/// Checks the batch for duplicates and inserts the requests that are new, in one transaction of two round trips. `begin` is
/// the statement that starts the transaction.
pub(super) async fn enqueue(
    begin: &Begin,
    store: &StoreState,
    session: &Session,
    batch: &[EnqueueRequest],
) -> Result<RequestResults, tokio_postgres::Error> {
    let (keys, taken) = begin_and_look_up(begin, session, batch).await?;
    let decisions = decide(batch, keys, taken);
    let accepted: Vec<usize> =
        (0..batch.len()).filter(|index| matches!(decisions[*index], Decision::Store)).collect();
    let stored = insert_and_commit(store, session, batch, &accepted).await?;
    Ok(results(decisions, stored))
}

/// Begins the transaction, locks the idempotency keys of the batch, and returns their earlier uses and the event ids that are
/// taken. The statements are sent together and run in order: each has a snapshot of its own, after the lock.
async fn begin_and_look_up(
    begin: &Begin,
    session: &Session,
    batch: &[EnqueueRequest],
) -> Result<(HashMap<String, UsedKey>, HashSet<String>), tokio_postgres::Error> {
    let keys: Vec<&str> =
        batch.iter().filter_map(|request| Some(request.idempotency.as_ref()?.key.as_str())).collect();
    let events = batch.iter().flat_map(|request| &request.events);
    let ids: Vec<&str> = events.filter_map(NewEvent::event_id).map(EventId::as_str).collect();
    let (begun, locked, used, taken) = join4(
        session.begin(begin),
        query_unless_empty(session, &LOCK_KEYS, &keys).await?,
        query_unless_empty(session, &SELECT_KEYS, &keys).await?,
        query_unless_empty(session, &SELECT_TAKEN_EVENT_IDS, &ids).await?,
    )
    .await;
    begun?;
    locked?;
    let mut earlier_uses = HashMap::new();
    for row in used? {
        let created_at = row.try_get::<_, PgTimestamp>(2)?.0;
        let ids = row.try_get::<_, Vec<String>>(3)?.into_iter().map(EventId::from_stored);
        let response = EnqueueResponse {
            replayed: true,
            receipts: pending_receipts(ids, created_at),
            leases: Vec::new(),
        };
        let key = UsedKey { fingerprint: row.try_get(1)?, first_use: FirstUse::Stored(response) };
        earlier_uses.insert(row.try_get(0)?, key);
    }
    let taken = taken?.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    Ok((earlier_uses, taken))
}

/// Prepares a statement with one parameter, and returns the call that runs it. Runs nothing without values.
async fn query_unless_empty<'a>(
    session: &'a Session,
    sql: &'static Sql,
    values: &'a [&'a str],
) -> Result<impl Future<Output = Result<Vec<Row>, tokio_postgres::Error>> + 'a, tokio_postgres::Error> {
    let statement = session.prepare(sql).await?;
    Ok(
        async move { if values.is_empty() { Ok(Vec::new()) } else { session.send(&statement, &[&values]).await } },
    )
}

/// Decides what to do with each request, in order: the keys and event ids of one are taken for the next.
fn decide(
    batch: &[EnqueueRequest],
    mut keys: HashMap<String, UsedKey>,
    mut taken: HashSet<String>,
) -> Vec<Decision> {
    let mut decide_one = |(index, request): (usize, &EnqueueRequest)| {
        if let Some(idempotency) = &request.idempotency
            && let Some(used) = keys.get(&idempotency.key)
        {
            return match &used.first_use {
                _ if used.fingerprint != idempotency.fingerprint => {
                    Decision::Refuse(StoreError::IdempotencyConflict { key: idempotency.key.clone() })
                }
                FirstUse::Stored(response) => Decision::Replay(response.clone()),
                FirstUse::InBatch(first) => Decision::ReplayInBatch(*first),
            };
        }
        let mut own_ids = HashSet::new();
        for event_id in request.events.iter().filter_map(NewEvent::event_id) {
            if taken.contains(event_id.as_str()) || !own_ids.insert(event_id.as_str().to_owned()) {
                return Decision::Refuse(StoreError::EventIdTaken { event_id: event_id.clone() });
            }
        }
        taken.extend(own_ids);
        if let Some(idempotency) = &request.idempotency {
            let fingerprint = idempotency.fingerprint.to_vec();
            let used = UsedKey { fingerprint, first_use: FirstUse::InBatch(index) };
            keys.insert(idempotency.key.clone(), used);
        }
        Decision::Store
    };
    batch.iter().enumerate().map(&mut decide_one).collect()
}

/// Inserts the events of the accepted requests, and their keys, and commits, in one round trip. `accepted` has the indexes
/// of these requests in the batch. Returns their responses by index.
async fn insert_and_commit(
    store: &StoreState,
    session: &Session,
    batch: &[EnqueueRequest],
    accepted: &[usize],
) -> Result<HashMap<usize, EnqueueResponse>, tokio_postgres::Error> {
    let commit = session.client().batch_execute("COMMIT");
    if accepted.is_empty() {
        commit.await?;
        return Ok(HashMap::new());
    }
    let requests = accepted.iter().map(|index| &batch[*index]);
    let insert =
        Insert::of_requests(requests.clone(), &store.destination_ids, &mut MessageIds::from_system());
    let event_ids: Vec<EventId> = insert.event_ids().collect();
    let keys = KeyColumns::new(requests.clone(), &event_ids);
    let (insert_events, insert_keys) =
        (session.prepare(insert.statement()).await?, session.prepare(&INSERT_KEYS).await?);
    let insert_params = insert.params();
    // If a statement fails, PostgreSQL skips the next ones and rolls back at the COMMIT.
    let (rows, inserted_keys, committed) = join3(
        session.send(&insert_events, &insert_params),
        async {
            if keys.is_empty() { Ok(Vec::new()) } else { session.send(&insert_keys, &keys.params()).await }
        },
        commit,
    )
    .await;
    let rows = rows?;
    inserted_keys?;
    committed?;
    let (_, responses) = stored_responses(store, &insert, &rows, requests)?;
    Ok(accepted.iter().copied().zip(responses).collect())
}

/// The parameters of [`INSERT_KEYS`].
#[derive(Default)]
struct KeyColumns<'a> {
    keys: Vec<&'a str>,
    fingerprints: Vec<&'a [u8]>,
    keep_us: Vec<i64>,
    ids_from: Vec<i32>,
    ids: Vec<&'a str>,
    ids_to: Vec<i32>,
}

impl<'a> KeyColumns<'a> {
    /// The keys of requests. `event_ids` has the ids of all their events, in order.
    fn new(requests: impl Iterator<Item = &'a EnqueueRequest>, mut event_ids: &'a [EventId]) -> Self {
        let mut columns = Self::default();
        for request in requests {
            let (own, others) = event_ids.split_at(request.events.len());
            event_ids = others;
            let Some(idempotency) = &request.idempotency else { continue };
            columns.keys.push(&idempotency.key);
            columns.fingerprints.push(&idempotency.fingerprint);
            columns.keep_us.push(micros(idempotency.keep_for));
            columns.ids_from.push(array_index(columns.ids.len()) + 1);
            columns.ids.extend(own.iter().map(EventId::as_str));
            columns.ids_to.push(array_index(columns.ids.len()));
        }
        columns
    }

    fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    fn params(&self) -> [&(dyn ToSql + Sync); 6] {
        [&self.keys, &self.fingerprints, &self.keep_us, &self.ids_from, &self.ids, &self.ids_to]
    }
}

fn array_index(index: usize) -> i32 {
    i32::try_from(index).expect("a batch has far fewer than two billion events")
}

/// Converts each decision to a result, in order. `stored` has the responses of the stored requests by index.
fn results(decisions: Vec<Decision>, mut stored: HashMap<usize, EnqueueResponse>) -> RequestResults {
    let replays: Vec<Option<EnqueueResponse>> = decisions
        .iter()
        .map(|decision| match decision {
            Decision::ReplayInBatch(first) => {
                Some(EnqueueResponse { replayed: true, leases: Vec::new(), ..stored[first].clone() })
            }
            _ => None,
        })
        .collect();
    let was_stored = "every accepted request has been stored";
    decisions
        .into_iter()
        .zip(replays)
        .enumerate()
        .map(|(index, (decision, replay))| match decision {
            Decision::Store => Ok(stored.remove(&index).expect(was_stored)),
            Decision::ReplayInBatch(_) => Ok(replay.expect(was_stored)),
            Decision::Replay(response) => Ok(response),
            Decision::Refuse(error) => Err(error),
        })
        .collect()
}
