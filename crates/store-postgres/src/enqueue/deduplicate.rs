//! Requests with idempotency keys or chosen event ids: decides which are stored, replayed or refused.

use std::collections::{HashMap, HashSet};

use posthaste_domain::{EventId, NewEvent, Timestamp};
use posthaste_store::{EnqueueRequest, EnqueueResponse, StoreError};
use tokio_postgres::types::Type;

use super::insert::{INSERT, Insert, MessageIds, pending_receipts};
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
/// delimit those of one key: PostgreSQL's arrays of arrays must all have one length.
static INSERT_KEYS: Sql = Sql {
    text: "
INSERT INTO app.webhook_idempotency (key, fingerprint, expires_at, created_at, event_ids)
SELECT k.key, k.fingerprint, app.webhook_now() + k.keep_us * interval '1 microsecond',
       timestamptz 'epoch' + $6 * interval '1 microsecond', ($5::text[])[k.ids_from : k.ids_to]
FROM unnest($1::text[], $2::bytea[], $3::bigint[], $4::integer[], $7::integer[])
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
        Type::INT8,
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

/// Checks the batch for duplicates and inserts the requests that are new, in one transaction. `begin` is the statement
/// that starts the transaction.
pub(super) async fn enqueue(
    begin: &Begin,
    store: &StoreState,
    session: &Session,
    batch: &[EnqueueRequest],
) -> Result<RequestResults, tokio_postgres::Error> {
    session.begin(begin).await?;
    let keys = lock_and_select_keys(session, batch).await?;
    let taken = select_taken_ids(session, batch).await?;
    let decisions = decide(batch, keys, taken);
    let accepted: Vec<usize> =
        (0..batch.len()).filter(|index| matches!(decisions[*index], Decision::Store)).collect();
    let stored = insert(store, session, batch, &accepted).await?;
    session.client().batch_execute("COMMIT").await?;
    Ok(results(decisions, stored))
}

async fn lock_and_select_keys(
    session: &Session,
    batch: &[EnqueueRequest],
) -> Result<HashMap<String, UsedKey>, tokio_postgres::Error> {
    let keys: Vec<&str> =
        batch.iter().filter_map(|request| Some(request.idempotency.as_ref()?.key.as_str())).collect();
    if keys.is_empty() {
        return Ok(HashMap::new());
    }
    session.query(&LOCK_KEYS, &[&keys]).await?;
    let mut used = HashMap::new();
    for row in session.query(&SELECT_KEYS, &[&keys]).await? {
        let created_at = row.try_get::<_, PgTimestamp>(2)?.0;
        let ids = row.try_get::<_, Vec<String>>(3)?.into_iter().map(EventId::from_stored);
        let response = EnqueueResponse {
            replayed: true,
            receipts: pending_receipts(ids, created_at),
            leases: Vec::new(),
        };
        let key = UsedKey { fingerprint: row.try_get(1)?, first_use: FirstUse::Stored(response) };
        used.insert(row.try_get(0)?, key);
    }
    Ok(used)
}

async fn select_taken_ids(
    session: &Session,
    batch: &[EnqueueRequest],
) -> Result<HashSet<String>, tokio_postgres::Error> {
    let events = batch.iter().flat_map(|request| &request.events);
    let ids: Vec<&str> = events.filter_map(NewEvent::event_id).map(EventId::as_str).collect();
    if ids.is_empty() {
        return Ok(HashSet::new());
    }
    session.query(&SELECT_TAKEN_EVENT_IDS, &[&ids]).await?.iter().map(|row| row.try_get(0)).collect()
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

/// Inserts the events of the accepted requests, and their keys. `accepted` has the indexes of these requests in the
/// batch. Returns their responses by index.
async fn insert(
    store: &StoreState,
    session: &Session,
    batch: &[EnqueueRequest],
    accepted: &[usize],
) -> Result<HashMap<usize, EnqueueResponse>, tokio_postgres::Error> {
    let requests = accepted.iter().map(|index| &batch[*index]);
    let insert = Insert::of_requests(requests, &store.destination_ids, &mut MessageIds::from_system());
    let rows = session.query(&INSERT, &insert.params()).await?;
    let created_at = insert.read_result(&rows, &store.destination_ids)?;
    let mut ids = insert.event_ids();
    let mut responses = HashMap::new();
    for index in accepted {
        let receipts = pending_receipts(ids.by_ref().take(batch[*index].events.len()), created_at);
        responses.insert(*index, EnqueueResponse { replayed: false, receipts, leases: Vec::new() });
    }
    insert_keys(session, batch, accepted, &responses, created_at).await?;
    Ok(responses)
}

async fn insert_keys(
    session: &Session,
    batch: &[EnqueueRequest],
    accepted: &[usize],
    responses: &HashMap<usize, EnqueueResponse>,
    created_at: Timestamp,
) -> Result<(), tokio_postgres::Error> {
    let (mut keys, mut fingerprints, mut keeps, mut from, mut to) = (vec![], vec![], vec![], vec![], vec![]);
    let mut ids: Vec<&str> = Vec::new();
    for index in accepted {
        let Some(idempotency) = &batch[*index].idempotency else { continue };
        keys.push(idempotency.key.as_str());
        fingerprints.push(&idempotency.fingerprint[..]);
        keeps.push(micros(idempotency.keep_for));
        from.push(array_index(ids.len()) + 1);
        ids.extend(responses[index].receipts.iter().map(|receipt| receipt.event_id.as_str()));
        to.push(array_index(ids.len()));
    }
    if !keys.is_empty() {
        let at = created_at.as_micros();
        session.query(&INSERT_KEYS, &[&keys, &fingerprints, &keeps, &from, &ids, &at, &to]).await?;
    }
    Ok(())
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
                Some(EnqueueResponse { replayed: true, ..stored[first].clone() })
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
