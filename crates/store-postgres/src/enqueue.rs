//! Storing what producers hand in.
//!
//! Every event of a batch goes into one statement, whoever asked for it. Requests that carry an idempotency key or an
//! event id of their own are judged first, in the same transaction.

mod insert;
mod judge;
mod transaction;

use posthaste_store::{EnqueueRequest, Enqueued, StoreError};
use tokio_postgres::error::SqlState;

use crate::Shared;
use crate::enqueue::insert::{Insert, MessageIds, receipts};
use crate::session::Session;

pub use transaction::{CallerError, enqueue_in};

pub(crate) use insert::Places;

type Answers = Vec<Result<Enqueued, StoreError>>;

/// How often a batch is judged again because somebody took an event id meanwhile.
const TRIES: usize = 5;

pub(crate) async fn enqueue(store: &Shared, batch: &[EnqueueRequest]) -> Result<Answers, StoreError> {
    if batch.iter().all(|request| request.events.is_empty() && request.idempotency.is_none()) {
        return Ok(batch.iter().map(|_| Ok(Enqueued { replayed: false, receipts: Vec::new() })).collect());
    }
    let judged = batch.iter().any(|request| {
        request.idempotency.is_some() || request.events.iter().any(|event| event.event_id().is_some())
    });
    let answer = store
        .sessions
        .produce
        .with(async |session| {
            if judged {
                judge_and_insert(store, session, batch).await
            } else {
                insert(store, session, batch).await
            }
        })
        .await;
    match &answer {
        Ok(_) => store.waker.wake(),
        // A server that came back may not know a destination that the one before it did.
        Err(_) => store.places.forget(),
    }
    answer
}

async fn insert(
    store: &Shared,
    session: &Session,
    batch: &[EnqueueRequest],
) -> Result<Answers, tokio_postgres::Error> {
    let events: Vec<_> = batch.iter().flat_map(|request| &request.events).collect();
    let insert = Insert::of(&events, &store.places, &mut MessageIds::of_this_host());
    let rows = session.transact(&insert::INSERT, &insert.params()).await?;
    let created_at = insert.stored(&rows, &store.places)?;
    let mut ids = insert.event_ids();
    let answer = |request: &EnqueueRequest| {
        let receipts = receipts(ids.by_ref().take(request.events.len()), created_at);
        Ok(Enqueued { replayed: false, receipts })
    };
    Ok(batch.iter().map(answer).collect())
}

async fn judge_and_insert(
    store: &Shared,
    session: &Session,
    batch: &[EnqueueRequest],
) -> Result<Answers, tokio_postgres::Error> {
    let mut tries = 1;
    loop {
        match judge::enqueue(store, session, batch).await {
            // Taken between the look and the insert. The next look sees by whom.
            Err(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) && tries < TRIES => {
                session.client().batch_execute("ROLLBACK").await?;
                tries += 1;
            }
            answers => return answers,
        }
    }
}
