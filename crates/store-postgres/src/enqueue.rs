//! Storing what producers hand in.
//!
//! Every event of a batch goes into one statement, whoever asked for it. Requests that carry an idempotency key or an
//! event id of their own are judged first, in the same transaction. Where a transaction of a caller's own holds what one
//! of them needs, they are stored one by one: only that one is put off.

mod contended;
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

/// Requests of one batch that are found to be held up, one after the other. Those behind them are put off untried.
const CONTENDED_ENOUGH: usize = 2;

pub(crate) async fn enqueue(store: &Shared, batch: &[EnqueueRequest]) -> Result<Answers, StoreError> {
    if batch.iter().all(|request| request.events.is_empty() && request.idempotency.is_none()) {
        return Ok(batch.iter().map(|_| Ok(Enqueued { replayed: false, receipts: Vec::new() })).collect());
    }
    match together(store, batch).await? {
        Ok(answers) => Ok(answers),
        Err(contended) if batch.len() == 1 => Ok(vec![Err(contended)]),
        Err(_) => Ok(one_by_one(store, batch).await),
    }
}

/// All of them in one transaction, or the word that it would have to wait for somebody else's.
async fn together(
    store: &Shared,
    batch: &[EnqueueRequest],
) -> Result<Result<Answers, StoreError>, StoreError> {
    let judged = batch.iter().any(|request| {
        request.idempotency.is_some() || request.events.iter().any(|event| event.event_id().is_some())
    });
    let answer = store
        .sessions
        .produce
        .with(async |session| {
            let stored = if judged {
                judge_and_insert(store, session, batch).await
            } else {
                insert(store, session, batch).await
            };
            match stored {
                Err(error) if contended::is_contended(&error) => {
                    session.client().batch_execute("ROLLBACK").await?;
                    Ok(Err(StoreError::Contended { held: contended::held(&error, batch, &store.places) }))
                }
                stored => stored.map(Ok),
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

async fn one_by_one(store: &Shared, batch: &[EnqueueRequest]) -> Answers {
    let mut answers = Answers::with_capacity(batch.len());
    let (mut contended, mut away) = (0, None);
    for request in batch {
        let answer = match &away {
            Some(error) => Err(StoreError::clone(error)),
            None if contended == CONTENDED_ENOUGH => Err(StoreError::Contended { held: None }),
            None => match together(store, std::slice::from_ref(request)).await {
                Ok(Ok(mut answers)) => answers.remove(0),
                Ok(Err(held_up)) => {
                    contended += 1;
                    Err(held_up)
                }
                // What comes after it was not tried; that it is not known is true enough.
                Err(error) => Err(away.insert(error).clone()),
            },
        };
        answers.push(answer);
    }
    answers
}

async fn insert(
    store: &Shared,
    session: &Session,
    batch: &[EnqueueRequest],
) -> Result<Answers, tokio_postgres::Error> {
    let events: Vec<_> = batch.iter().flat_map(|request| &request.events).collect();
    let insert = Insert::of(&events, &store.places, &mut MessageIds::of_this_host());
    let rows = session.transact_impatiently(&insert::INSERT, &insert.params()).await?;
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
