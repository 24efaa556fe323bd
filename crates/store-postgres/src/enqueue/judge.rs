//! Requests with idempotency keys and event ids of their own: which are stored, replayed or refused.

use std::collections::{HashMap, HashSet};

use posthaste_domain::{EventId, NewEvent, Timestamp};
use posthaste_store::{EnqueueRequest, Enqueued, StoreError};
use tokio_postgres::types::Type;

use super::Answers;
use super::insert::{INSERT, Insert, MessageIds, receipts};
use crate::Shared;
use crate::moment::{Moment, micros};
use crate::session::{Session, Sql};

/// Whoever comes with a key waits for whoever came with it before; in one order, so that nobody waits in a circle.
static LOCK_KEYS: Sql = Sql {
    text: "
SELECT pg_advisory_xact_lock(lock) FROM (
    SELECT DISTINCT hashtextextended(key, 7526) AS lock FROM unnest($1::text[]) AS k (key) ORDER BY lock
) locks",
    types: &[Type::TEXT_ARRAY],
};

static KNOWN_KEYS: Sql = Sql {
    text: "
SELECT i.key, i.fingerprint, i.created_at, i.event_ids
FROM app.webhook_idempotency i
WHERE i.key = ANY ($1) AND i.forget_at > app.webhook_now()",
    types: &[Type::TEXT_ARRAY],
};

static TAKEN_IDS: Sql = Sql {
    text: "SELECT e.event_id FROM app.webhook_events e WHERE e.event_id = ANY ($1)",
    types: &[Type::TEXT_ARRAY],
};

/// `ids_from` and `ids_to` say which of all event ids are a key's: arrays of arrays would all have to be of one length.
static REMEMBER: Sql = Sql {
    text: "
INSERT INTO app.webhook_idempotency (key, fingerprint, forget_at, created_at, event_ids)
SELECT k.key, k.fingerprint, app.webhook_now() + k.keep_us * interval '1 microsecond',
       timestamptz 'epoch' + $6 * interval '1 microsecond', ($5::text[])[k.ids_from : k.ids_to]
FROM unnest($1::text[], $2::bytea[], $3::bigint[], $4::integer[], $7::integer[])
     AS k (key, fingerprint, keep_us, ids_from, ids_to)
ON CONFLICT (key) DO UPDATE
SET fingerprint = excluded.fingerprint, forget_at = excluded.forget_at, created_at = excluded.created_at,
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

/// What a key was used for.
struct Used {
    fingerprint: Vec<u8>,
    answer: First,
}

enum First {
    /// Stored by an earlier call.
    Before(Enqueued),
    /// By a request of this batch.
    InBatch(usize),
}

/// The fate of a request.
enum Verdict {
    Store,
    Replay(Enqueued),
    /// Like the request of this batch that came with the key first.
    ReplayOf(usize),
    Refuse(StoreError),
}

pub(super) async fn enqueue(
    begin: &str,
    store: &Shared,
    session: &Session,
    batch: &[EnqueueRequest],
) -> Result<Answers, tokio_postgres::Error> {
    session.client().batch_execute(begin).await?;
    let keys = known_keys(session, batch).await?;
    let taken = taken_ids(session, batch).await?;
    let verdicts = judge(batch, keys, taken);
    let stored: Vec<usize> =
        (0..batch.len()).filter(|index| matches!(verdicts[*index], Verdict::Store)).collect();
    let answers = insert(store, session, batch, &stored).await?;
    session.client().batch_execute("COMMIT").await?;
    Ok(told(verdicts, answers))
}

async fn known_keys(
    session: &Session,
    batch: &[EnqueueRequest],
) -> Result<HashMap<String, Used>, tokio_postgres::Error> {
    let keys: Vec<&str> =
        batch.iter().filter_map(|request| Some(request.idempotency.as_ref()?.key.as_str())).collect();
    if keys.is_empty() {
        return Ok(HashMap::new());
    }
    session.query(&LOCK_KEYS, &[&keys]).await?;
    let mut known = HashMap::new();
    for row in session.query(&KNOWN_KEYS, &[&keys]).await? {
        let created_at = row.try_get::<_, Moment>(2)?.0;
        let ids = row.try_get::<_, Vec<String>>(3)?.into_iter().map(EventId::stored);
        let answer = First::Before(Enqueued { replayed: true, receipts: receipts(ids, created_at) });
        known.insert(row.try_get(0)?, Used { fingerprint: row.try_get(1)?, answer });
    }
    Ok(known)
}

async fn taken_ids(
    session: &Session,
    batch: &[EnqueueRequest],
) -> Result<HashSet<String>, tokio_postgres::Error> {
    let events = batch.iter().flat_map(|request| &request.events);
    let ids: Vec<&str> = events.filter_map(NewEvent::event_id).map(EventId::as_str).collect();
    if ids.is_empty() {
        return Ok(HashSet::new());
    }
    session.query(&TAKEN_IDS, &[&ids]).await?.iter().map(|row| row.try_get(0)).collect()
}

/// In the order of the requests: what one of them stores is known to the next.
fn judge(
    batch: &[EnqueueRequest],
    mut keys: HashMap<String, Used>,
    mut taken: HashSet<String>,
) -> Vec<Verdict> {
    let mut judge_one = |(index, request): (usize, &EnqueueRequest)| {
        if let Some(idempotency) = &request.idempotency
            && let Some(used) = keys.get(&idempotency.key)
        {
            return match &used.answer {
                _ if used.fingerprint != idempotency.fingerprint => {
                    Verdict::Refuse(StoreError::IdempotencyConflict { key: idempotency.key.clone() })
                }
                First::Before(enqueued) => Verdict::Replay(enqueued.clone()),
                First::InBatch(first) => Verdict::ReplayOf(*first),
            };
        }
        let mut own = HashSet::new();
        for event_id in request.events.iter().filter_map(NewEvent::event_id) {
            if taken.contains(event_id.as_str()) || !own.insert(event_id.as_str().to_owned()) {
                return Verdict::Refuse(StoreError::EventIdTaken { event_id: event_id.clone() });
            }
        }
        taken.extend(own);
        if let Some(idempotency) = &request.idempotency {
            let used = Used { fingerprint: idempotency.fingerprint.to_vec(), answer: First::InBatch(index) };
            keys.insert(idempotency.key.clone(), used);
        }
        Verdict::Store
    };
    batch.iter().enumerate().map(&mut judge_one).collect()
}

/// Stores the events of the given requests, and remembers their keys with the ids of their events.
async fn insert(
    store: &Shared,
    session: &Session,
    batch: &[EnqueueRequest],
    stored: &[usize],
) -> Result<HashMap<usize, Enqueued>, tokio_postgres::Error> {
    let events: Vec<&NewEvent> = stored.iter().flat_map(|index| &batch[*index].events).collect();
    let insert = Insert::of(&events, &store.places, &mut MessageIds::of_this_host());
    let rows = session.query(&INSERT, &insert.params()).await?;
    let created_at = insert.stored(&rows, &store.places)?;
    let mut ids = insert.event_ids();
    let mut answers = HashMap::new();
    for index in stored {
        let receipts = receipts(ids.by_ref().take(batch[*index].events.len()), created_at);
        answers.insert(*index, Enqueued { replayed: false, receipts });
    }
    remember(session, batch, stored, &answers, created_at).await?;
    Ok(answers)
}

async fn remember(
    session: &Session,
    batch: &[EnqueueRequest],
    stored: &[usize],
    answers: &HashMap<usize, Enqueued>,
    created_at: Timestamp,
) -> Result<(), tokio_postgres::Error> {
    let (mut keys, mut fingerprints, mut keeps, mut from, mut to) = (vec![], vec![], vec![], vec![], vec![]);
    let mut ids: Vec<&str> = Vec::new();
    for index in stored {
        let Some(idempotency) = &batch[*index].idempotency else { continue };
        keys.push(idempotency.key.as_str());
        fingerprints.push(&idempotency.fingerprint[..]);
        keeps.push(micros(idempotency.keep));
        from.push(position(ids.len()) + 1);
        ids.extend(answers[index].receipts.iter().map(|receipt| receipt.event_id.as_str()));
        to.push(position(ids.len()));
    }
    if !keys.is_empty() {
        let at = created_at.as_micros();
        session.query(&REMEMBER, &[&keys, &fingerprints, &keeps, &from, &ids, &at, &to]).await?;
    }
    Ok(())
}

fn position(index: usize) -> i32 {
    i32::try_from(index).expect("a batch is small")
}

fn told(verdicts: Vec<Verdict>, mut answers: HashMap<usize, Enqueued>) -> Answers {
    let replays: Vec<Option<Enqueued>> = verdicts
        .iter()
        .map(|verdict| match verdict {
            Verdict::ReplayOf(first) => Some(Enqueued { replayed: true, ..answers[first].clone() }),
            _ => None,
        })
        .collect();
    let stored = "what is to be stored has been answered";
    verdicts
        .into_iter()
        .zip(replays)
        .enumerate()
        .map(|(index, (verdict, replay))| match verdict {
            Verdict::Store => Ok(answers.remove(&index).expect(stored)),
            Verdict::ReplayOf(_) => Ok(replay.expect(stored)),
            Verdict::Replay(enqueued) => Ok(enqueued),
            Verdict::Refuse(error) => Err(error),
        })
        .collect()
}
