//! Writes a batch of enqueue requests: all in one transaction, or one by one where a lock blocks one of them.

use std::collections::BTreeSet;
use std::sync::Weak;

use async_trait::async_trait;
use posthaste_domain::Lease;
use posthaste_store::{EnqueueRequest, EnqueueResponse, LeaseRef, StoreError};
use tokio_postgres::error::SqlState;

use super::batch::{BatchWriter, WriteError, WriteResult};
use super::contention::lockable_resources;
use super::deduplicate;
use super::insert::{Insert, MessageIds, stored_responses};
use super::lock_wait::LockedTable;
use crate::StoreState;
use crate::error::{is_lock_conflict, unavailable};
use crate::lease;
use crate::session::{BEGIN_ENQUEUE, BEGIN_ENQUEUE_SHORT_LOCK_WAIT, Begin, Session};

pub(super) type RequestResults = Vec<Result<EnqueueResponse, StoreError>>;

/// Maximum number of tries to write a batch. A try fails if another transaction takes one of its event ids between the
/// check and the insert.
const EVENT_ID_TRIES_MAX: usize = 5;

/// Maximum number of requests of one batch that each wait for a lock. Beyond it, the rest of the batch counts as
/// blocked, untried.
const BLOCKED_REQUESTS_MAX: usize = 4;

/// The result of writing requests in one transaction.
enum TransactionResult {
    Committed(RequestResults),
    /// Nothing was stored: an open transaction of another client holds a row that one of the requests needs. The
    /// resource is named if there is only one candidate.
    Blocked(Option<String>),
}

/// Writes through a weak reference, so that the queue's task does not keep a dropped store alive.
#[async_trait]
impl BatchWriter for Weak<StoreState> {
    async fn write_batch(&self, batch: &[EnqueueRequest]) -> Result<Vec<WriteResult>, StoreError> {
        let store = self.upgrade().ok_or_else(|| unavailable("the store is closed; open it again"))?;
        write(&store, batch).await
    }

    async fn release(&self, leases: &[Lease]) {
        let Some(store) = self.upgrade() else { return };
        let held: Vec<LeaseRef> = leases.iter().map(LeaseRef::from).collect();
        if let Err(error) = lease::release(&store, &held).await {
            tracing::debug!(code = error.code(), %error, "leases of a lost response not released; they expire");
        }
    }
}

pub(super) async fn write(
    store: &StoreState,
    batch: &[EnqueueRequest],
) -> Result<Vec<WriteResult>, StoreError> {
    if batch.iter().all(|request| request.events.is_empty() && request.idempotency.is_none()) {
        let empty = EnqueueResponse { replayed: false, receipts: Vec::new(), leases: Vec::new() };
        return Ok(vec![Ok(empty); batch.len()]);
    }
    match write_together(store, batch).await? {
        TransactionResult::Committed(results) => {
            Ok(results.into_iter().map(|result| result.map_err(WriteError::from)).collect())
        }
        TransactionResult::Blocked(resource) if batch.len() == 1 => {
            Ok(vec![Err(WriteError::Blocked { resource })])
        }
        TransactionResult::Blocked(_) => Ok(write_one_by_one(store, batch).await),
    }
}

/// Writes all requests in one transaction.
async fn write_together(
    store: &StoreState,
    batch: &[EnqueueRequest],
) -> Result<TransactionResult, StoreError> {
    let written = store
        .sessions
        .produce
        .with(async |session| match transact(&BEGIN_ENQUEUE_SHORT_LOCK_WAIT, store, session, batch).await {
            // The lock is not one that a client can hold for as long as it likes: wait longer for it.
            Err(error) if is_lock_conflict(&error) => transact(&BEGIN_ENQUEUE, store, session, batch).await,
            written => written,
        })
        .await;
    match &written {
        Ok(TransactionResult::Committed(results))
            if results.iter().flatten().any(EnqueueResponse::leaves_events_to_claim) =>
        {
            store.wake_after_enqueue();
        }
        Ok(TransactionResult::Committed(_) | TransactionResult::Blocked(_)) => {}
        // After a failover, the new server may lack destinations that the old one had.
        Err(_) => store.destination_ids.clear(),
    }
    written
}

/// Writes the batch in one transaction, which the statement `begin` starts. A lock conflict rolls it back.
async fn transact(
    begin: &Begin,
    store: &StoreState,
    session: &Session,
    batch: &[EnqueueRequest],
) -> Result<TransactionResult, tokio_postgres::Error> {
    let has_duplicates_to_check = batch.iter().any(|request| {
        request.idempotency.is_some() || request.events.iter().any(|event| event.event_id().is_some())
    });
    let results = if has_duplicates_to_check {
        insert_deduplicated(begin, store, session, batch).await
    } else {
        insert_all(begin, store, session, batch).await
    };
    match results {
        Err(error) if is_lock_conflict(&error) => {
            session.client().batch_execute("ROLLBACK").await?;
            match LockedTable::from_error(&error) {
                Some(table) => {
                    Ok(TransactionResult::Blocked(table.locked_resource(batch, &store.destination_ids)))
                }
                None => Err(error),
            }
        }
        results => results.map(TransactionResult::Committed),
    }
}

/// Writes each request in a transaction of its own, so that only the blocked ones have to wait.
async fn write_one_by_one(store: &StoreState, batch: &[EnqueueRequest]) -> Vec<WriteResult> {
    let mut results = Vec::with_capacity(batch.len());
    let (mut locked, mut blocked_requests, mut outage) = (BTreeSet::new(), 0, None::<StoreError>);
    for request in batch {
        let resource =
            lockable_resources(request).find(|resource| locked.contains(*resource)).map(str::to_owned);
        let result = match &outage {
            Some(error) => Err(error.clone().into()),
            None if resource.is_some() || blocked_requests == BLOCKED_REQUESTS_MAX => {
                Err(WriteError::Blocked { resource })
            }
            None => match write_together(store, std::slice::from_ref(request)).await {
                Ok(TransactionResult::Committed(mut results)) => results.remove(0).map_err(WriteError::from),
                Ok(TransactionResult::Blocked(resource)) => {
                    blocked_requests += 1;
                    locked.extend(resource.clone());
                    Err(WriteError::Blocked { resource })
                }
                Err(error) => {
                    // The rest of the batch is not tried against a server that is unavailable.
                    outage = Some(error.clone()).filter(StoreError::is_transient);
                    Err(error.into())
                }
            },
        };
        results.push(result);
    }
    results
}

/// Inserts every event of a batch that has neither idempotency keys nor chosen event ids, in one round trip.
async fn insert_all(
    begin: &Begin,
    store: &StoreState,
    session: &Session,
    batch: &[EnqueueRequest],
) -> Result<RequestResults, tokio_postgres::Error> {
    let insert = Insert::of_requests(batch.iter(), &store.destination_ids, &mut MessageIds::from_system());
    let rows = session.transact_with(begin, insert.statement(), &insert.params()).await?;
    let (_, responses) = stored_responses(store, &insert, &rows, batch.iter())?;
    Ok(responses.into_iter().map(Ok).collect())
}

/// Checks idempotency keys and event ids, then inserts the requests that are new, in one transaction. Tries again if
/// another transaction takes an event id in between.
async fn insert_deduplicated(
    begin: &Begin,
    store: &StoreState,
    session: &Session,
    batch: &[EnqueueRequest],
) -> Result<RequestResults, tokio_postgres::Error> {
    let mut tries = 1;
    loop {
        match deduplicate::enqueue(begin, store, session, batch).await {
            // Another transaction took an event id between the check and the insert. The next check sees it.
            Err(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) && tries < EVENT_ID_TRIES_MAX => {
                session.client().batch_execute("ROLLBACK").await?;
                tries += 1;
            }
            results => return results,
        }
    }
}

#[cfg(test)]
mod tests;
