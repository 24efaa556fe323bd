//! Storing what producers hand in.
//!
//! Every event of a batch goes into one statement, whoever asked for it. Requests that carry an idempotency key or an
//! event id of their own are judged first, in the same transaction. Where a transaction of a caller's own holds what one
//! of them needs, they are stored one by one: only that one is put off.

mod held_up;
mod insert;
mod judge;
mod transaction;

use std::collections::BTreeSet;

use posthaste_store::{EnqueueRequest, Enqueued, StoreError};
use tokio_postgres::error::SqlState;

use crate::Shared;
use crate::enqueue::insert::{Insert, MessageIds, receipts};
use crate::error::gave_way;
use crate::session::{BEGIN, BEGIN_IMPATIENTLY, Session};

pub use transaction::{CallerError, enqueue_in};

pub(crate) use insert::Places;

type Answers = Vec<Result<Enqueued, StoreError>>;

/// How often a batch is judged again because somebody took an event id meanwhile.
const TRIES: usize = 5;

/// Requests of one batch that are found to be held up, one after the other. Those behind them are put off untried.
const HELD_UP_MAX: usize = 4;

/// What became of requests that were stored together.
enum Stored {
    All(Answers),
    /// Nothing was stored: a transaction that is still open holds what one of them needs, which may be known.
    HeldUp(Option<String>),
}

pub(crate) async fn enqueue(store: &Shared, batch: &[EnqueueRequest]) -> Result<Answers, StoreError> {
    if batch.iter().all(|request| request.events.is_empty() && request.idempotency.is_none()) {
        return Ok(batch.iter().map(|_| Ok(Enqueued { replayed: false, receipts: Vec::new() })).collect());
    }
    match together(store, batch).await? {
        Stored::All(answers) => Ok(answers),
        Stored::HeldUp(held) if batch.len() == 1 => Ok(vec![Err(StoreError::Contended { held })]),
        Stored::HeldUp(_) => Ok(one_by_one(store, batch).await),
    }
}

/// All of them in one transaction.
async fn together(store: &Shared, batch: &[EnqueueRequest]) -> Result<Stored, StoreError> {
    let answer = store
        .sessions
        .produce
        .with(async |session| match store_in(BEGIN_IMPATIENTLY, store, session, batch).await {
            // Something else than a caller's transaction is in the way, and passes.
            Err(error) if gave_way(&error) => store_in(BEGIN, store, session, batch).await,
            stored => stored,
        })
        .await;
    match &answer {
        Ok(Stored::All(_)) => store.waker.wake(),
        Ok(Stored::HeldUp(_)) => {}
        // A server that came back may not know a destination that the one before it did.
        Err(_) => store.places.forget(),
    }
    answer
}

/// In a transaction that begins so, and is over whatever comes of it.
async fn store_in(
    begin: &str,
    store: &Shared,
    session: &Session,
    batch: &[EnqueueRequest],
) -> Result<Stored, tokio_postgres::Error> {
    let judged = batch.iter().any(|request| {
        request.idempotency.is_some() || request.events.iter().any(|event| event.event_id().is_some())
    });
    let stored = if judged {
        judge_and_insert(begin, store, session, batch).await
    } else {
        insert(begin, store, session, batch).await
    };
    match stored {
        Err(error) if gave_way(&error) => {
            session.client().batch_execute("ROLLBACK").await?;
            match held_up::by_caller(&error) {
                Some(table) => Ok(Stored::HeldUp(table.held(batch, &store.places))),
                None => Err(error),
            }
        }
        stored => stored.map(Stored::All),
    }
}

async fn one_by_one(store: &Shared, batch: &[EnqueueRequest]) -> Answers {
    let mut answers = Answers::with_capacity(batch.len());
    let (mut found, mut held_up, mut away) = (BTreeSet::new(), 0, None::<StoreError>);
    for request in batch {
        let known = request.needs().find(|need| found.contains(*need)).map(str::to_owned);
        let answer = match &away {
            Some(error) => Err(error.clone()),
            None if known.is_some() || held_up == HELD_UP_MAX => Err(StoreError::Contended { held: known }),
            None => match together(store, std::slice::from_ref(request)).await {
                Ok(Stored::All(mut answers)) => answers.remove(0),
                Ok(Stored::HeldUp(held)) => {
                    held_up += 1;
                    found.extend(held.clone());
                    Err(StoreError::Contended { held })
                }
                Err(error) => {
                    // Those behind it were not tried; that it is not known is true enough.
                    away = Some(error.clone()).filter(StoreError::is_transient);
                    Err(error)
                }
            },
        };
        answers.push(answer);
    }
    answers
}

async fn insert(
    begin: &str,
    store: &Shared,
    session: &Session,
    batch: &[EnqueueRequest],
) -> Result<Answers, tokio_postgres::Error> {
    let events: Vec<_> = batch.iter().flat_map(|request| &request.events).collect();
    let insert = Insert::of(&events, &store.places, &mut MessageIds::of_this_host());
    let rows = session.transact_in(begin, &insert::INSERT, &insert.params()).await?;
    let created_at = insert.stored(&rows, &store.places)?;
    let mut ids = insert.event_ids();
    let answer = |request: &EnqueueRequest| {
        let receipts = receipts(ids.by_ref().take(request.events.len()), created_at);
        Ok(Enqueued { replayed: false, receipts })
    };
    Ok(batch.iter().map(answer).collect())
}

async fn judge_and_insert(
    begin: &str,
    store: &Shared,
    session: &Session,
    batch: &[EnqueueRequest],
) -> Result<Answers, tokio_postgres::Error> {
    let mut tries = 1;
    loop {
        match judge::enqueue(begin, store, session, batch).await {
            // Taken between the look and the insert. The next look sees by whom.
            Err(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) && tries < TRIES => {
                session.client().batch_execute("ROLLBACK").await?;
                tries += 1;
            }
            answers => return answers,
        }
    }
}
