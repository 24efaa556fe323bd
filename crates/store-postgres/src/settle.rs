//! Settles: writes the results of a batch of attempts, with all that derives from them, in one round trip.

mod columns;
mod late;
mod statements;

use std::collections::HashSet;

use posthaste_domain::{Decision, LeaseToken, WorkerId};
use posthaste_store::{SettleResult, Settlement, StoreError};
use tokio_postgres::types::ToSql;

use crate::StoreState;
use crate::notices::NoticeRow;
use crate::outstanding::CompletedClaims;
use crate::session::Session;
use columns::{Deliveries, Failures};
use statements::{SETTLE, SETTLE_DELIVERIES};

/// Writes a batch of settlements in one commit and returns, in order, whether each was applied. Late results, which are rare,
/// get a second commit: `settle/late.rs` says why.
pub(crate) async fn settle(
    store: &StoreState,
    worker: &WorkerId,
    batch: &[Settlement],
) -> Result<Vec<SettleResult>, StoreError> {
    if batch.is_empty() {
        return Ok(Vec::new());
    }
    let tokens = || batch.iter().map(|settlement| settlement.transition.token());
    let completed_claims = store.outstanding.completed_by(tokens());
    let written = store.sessions.dispatch.with(async |session| {
        let written = apply(session, Scope::OwnTransaction, worker, batch, &completed_claims).await?;
        let replayed = late::record(session, Scope::OwnTransaction, worker, batch, &written.applied).await?;
        Ok((written, replayed))
    });
    let (Written { applied, notices }, replayed) = written.await?;
    let references = store.outstanding.remove(tokens());
    store.blocked.release(batch.iter().map(|settlement| settlement.transition.destination_id()));
    let mut unreported = applied.clone();
    let result = |settlement: &Settlement| {
        let token = settlement.transition.token();
        if unreported.remove(&token) {
            SettleResult::Applied
        } else if applied.contains(&token) || replayed.contains(&token) {
            // Settled before, in this batch or in an earlier one.
            SettleResult::Replayed
        } else {
            SettleResult::Stale
        }
    };
    let results: Vec<SettleResult> = batch.iter().map(result).collect();
    let is_applied = |(_, result): &(&Settlement, &SettleResult)| **result == SettleResult::Applied;
    let applied = batch.iter().zip(&results).filter(is_applied).map(|(settlement, _)| settlement);
    if let Some(notices) = notices {
        store.committed_notices.add_settled(&notices, applied, &references);
    }
    Ok(results)
}

/// What the statement of a settle has written.
struct Written {
    /// The lease tokens of the settlements that were applied.
    applied: HashSet<LeaseToken>,
    /// The row of the notices, if there are any.
    notices: Option<NoticeRow>,
}

/// Whether a statement gets a transaction of its own, or runs in one that the caller has begun.
#[derive(Clone, Copy)]
enum Scope {
    OwnTransaction,
    OpenTransaction,
}

/// Writes a settlement in a transaction that the caller has begun, then runs the statements for late results as if it had
/// not been applied: they find that it has been.
pub(crate) async fn settle_in_transaction(
    session: &Session,
    worker: &WorkerId,
    settlement: Settlement,
) -> Result<(), tokio_postgres::Error> {
    let (batch, scope) = ([settlement], Scope::OpenTransaction);
    apply(session, scope, worker, &batch, &CompletedClaims::default()).await?;
    late::record(session, scope, worker, &batch, &HashSet::new()).await.map(drop)
}

/// Writes the settlements. Like every statement that locks
/// several rows, it locks them in key order, which rules out deadlocks.
async fn apply(
    session: &Session,
    scope: Scope,
    worker: &WorkerId,
    batch: &[Settlement],
    completed_claims: &CompletedClaims,
) -> Result<Written, tokio_postgres::Error> {
    let mut seen = HashSet::with_capacity(batch.len());
    let mut distinct: Vec<(usize, &Settlement)> =
        batch.iter().enumerate().filter(|(_, it)| seen.insert(it.transition.token())).collect();
    distinct.sort_by_key(|(_, settlement)| settlement.transition.key());
    let (mut deliveries, mut failures) = (Deliveries::default(), Failures::default());
    for (batch_index, settlement) in distinct {
        match settlement.transition.decision() {
            Decision::Delivered => deliveries.push(batch_index, settlement),
            Decision::Retry { .. } | Decision::Failed(_) => failures.push(batch_index, settlement),
        }
    }
    let worker = worker.as_str();
    let common: [&(dyn ToSql + Sync); 3] =
        [&worker, &completed_claims.claims, &completed_claims.lease_counts];
    let mut params = [&deliveries.params()[..], &common].concat();
    let rows = match scope {
        Scope::OwnTransaction if failures.is_empty() => session.transact(&SETTLE_DELIVERIES, &params).await?,
        Scope::OwnTransaction => {
            params.extend(failures.params());
            session.transact(&SETTLE, &params).await?
        }
        // The trial of writes runs the statement that needs more rights.
        Scope::OpenTransaction => {
            params.extend(failures.params());
            session.query(&SETTLE, &params).await?
        }
    };
    let row = rows.first().expect("the statement returns one row");
    let applied: Vec<i32> = row.try_get(0)?;
    let notices = match row.try_get(1)? {
        Some(id) => Some(NoticeRow { id, at: row.try_get(2)?, names_endpoints: row.try_get(3)? }),
        None => None,
    };
    Ok(Written { applied: applied.into_iter().map(|index| token_at(batch, index)).collect(), notices })
}

/// Returns the lease token of the settlement with this index.
fn token_at(batch: &[Settlement], index: i32) -> LeaseToken {
    let index = usize::try_from(index).expect("batch indexes are not negative");
    batch[index].transition.token()
}
