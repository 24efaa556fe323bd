//! A look: one discovery step, which finds the rows that have become claimable.

use std::iter;

use futures_util::future::join3;
use posthaste_claimable::DiscoveryStep;
use posthaste_domain::{DestinationId, Timestamp};
use posthaste_store::{ClaimRequest, RequestedProbe, ResumedDestination};
use tokio_postgres::Row;
use uuid::Uuid;

use super::DiscoveryState;
use crate::StoreState;
use crate::convert::micros;
use crate::discover::{
    self, COMMITTED_IN_GAPS, EXPIRED_LEASES, NEW_ROWS, READ_SNAPSHOT, STEP_CLAIMS_MAX, STEP_ROWS_MAX,
    SnapshotRow, step_rows_beside_a_backlog,
};
use crate::session::{PreparedSql, Session};

/// The statements of a look with the ranges that they read.
pub(super) struct Look {
    step: DiscoveryStep,
    /// The most rows that it reads of each range.
    rows_max: Vec<i64>,
    read_snapshot: PreparedSql,
    /// Only while there are gaps.
    committed_in_gaps: Option<PreparedSql>,
    new_rows: PreparedSql,
    claim: Uuid,
    resumed_within: i64,
    expiry_checked_to: i64,
}

/// The rows that the statements of a look returned.
pub(super) struct LookRows {
    snapshot: Vec<Row>,
    committed: Vec<Row>,
    new_rows: Vec<Row>,
}

/// What a look found, apart from the claimable rows.
pub(super) struct LookResult {
    pub(super) now: Timestamp,
    pub(super) resumed: Vec<ResumedDestination>,
    /// Destinations whose URL, keys or headers have changed.
    pub(super) updated: Vec<DestinationId>,
    pub(super) probes: Vec<RequestedProbe>,
    /// Whether a claim with this id has been granted leases.
    pub(super) is_claim_known: bool,
    /// Whether the expiry check of a claim is due.
    pub(super) has_due_expiry_checks: bool,
}

impl Look {
    /// Prepares a look. If the rows that are known fill the claim, it reads fewer new ones.
    pub(super) async fn prepare(
        session: &Session,
        discovery: &DiscoveryState,
        request: &ClaimRequest,
        is_filled: bool,
    ) -> Result<Self, tokio_postgres::Error> {
        let step = discovery.cursors.next_step();
        let new_rows_max = match discovery.looked_at {
            Some(looked_at) if is_filled => step_rows_beside_a_backlog(super::now() - looked_at),
            _ => STEP_ROWS_MAX,
        };
        // The first range is that of the new events.
        let rows_max = iter::once(new_rows_max).chain(iter::repeat(STEP_ROWS_MAX)).take(step.lows.len());
        let committed_in_gaps =
            if step.gap_lows.is_empty() { None } else { Some(session.prepare(&COMMITTED_IN_GAPS).await?) };
        Ok(Self {
            rows_max: rows_max.collect(),
            step,
            read_snapshot: session.prepare(&READ_SNAPSHOT).await?,
            committed_in_gaps,
            new_rows: session.prepare(&NEW_ROWS).await?,
            claim: request.id.as_uuid(),
            resumed_within: micros(request.resumed_within),
            expiry_checked_to: discovery.cursors.expiry_checked_to(),
        })
    }

    /// Runs the statements in one round trip.
    pub(super) async fn send(&self, session: &Session) -> Result<LookRows, tokio_postgres::Error> {
        let step = &self.step;
        let committed = async {
            match &self.committed_in_gaps {
                Some(sql) => session.send(sql, &[&step.gap_lows, &step.gap_highs, &STEP_ROWS_MAX]).await,
                None => Ok(Vec::new()),
            }
        };
        session
            .pipeline(async {
                let (snapshot, committed, new_rows) = join3(
                    session.send(
                        &self.read_snapshot,
                        &[&self.resumed_within, &self.claim, &self.expiry_checked_to],
                    ),
                    committed,
                    session.send(&self.new_rows, &[&step.lows, &step.highs, &self.rows_max]),
                )
                .await;
                Ok(LookRows { snapshot: snapshot?, committed: committed?, new_rows: new_rows? })
            })
            .await
    }

    /// Adds the rows to the index. Starts discovery again with the next claim if the rows come from another server, or if
    /// the server's clock has stepped back.
    pub(super) fn record(
        &self,
        rows: &LookRows,
        store: &StoreState,
        discovery: &mut DiscoveryState,
    ) -> Result<LookResult, tokio_postgres::Error> {
        let SnapshotRow {
            snapshot,
            last_number,
            resumed,
            updated,
            probes,
            is_claim_known,
            has_due_expiry_checks,
        } = SnapshotRow::parse(&rows.snapshot)?;
        let now = snapshot.now;
        let mut result = LookResult { now, resumed, updated, probes, is_claim_known, has_due_expiry_checks };
        if last_number < discovery.cursors.discovered_to().0 {
            // The sequence went backwards: this is another server with fewer rows, and the index does not describe it.
            *discovery = DiscoveryState::default();
            result.has_due_expiry_checks = false;
            return Ok(result);
        }
        if discovery.cursors.has_clock_stepped_back(now) {
            *discovery = DiscoveryState::default();
            store.clock_repair.request();
            store.sweep_request.notify_one();
            result.has_due_expiry_checks = false;
            return Ok(result);
        }
        let (cursors, claimable) = (&mut discovery.cursors, &mut discovery.claimable);
        let read = discover::parse_step(&rows.new_rows, &rows.committed)?;
        cursors.record_step(&self.step, snapshot, &read, claimable);
        claimable.remove_ended(now);
        for resumed in &result.resumed {
            claimable.record_resume(resumed.destination);
        }
        for updated in &result.updated {
            claimable.record_update(*updated);
        }
        if !has_due_expiry_checks {
            cursors.record_expiry_checks(now);
        }
        discovery.looked_at = Some(super::now());
        Ok(result)
    }
}

/// Adds the expired leases of claims whose expiry check is due to the index.
pub(super) async fn find_expired_leases(
    session: &Session,
    discovery: &mut DiscoveryState,
    now: Timestamp,
) -> Result<(), tokio_postgres::Error> {
    let checked_to = discovery.cursors.expiry_checked_to();
    let expired = session.transact(&EXPIRED_LEASES, &[&checked_to, &STEP_CLAIMS_MAX]).await?;
    discover::record_expired(&expired, now, &mut discovery.cursors, &mut discovery.claimable)
}

/// Runs the first statement of a look in the transaction of a trial write.
pub(crate) async fn try_look(session: &Session) -> Result<(), tokio_postgres::Error> {
    session.query(&READ_SNAPSHOT, &[&0_i64, &Uuid::nil(), &0_i64]).await.map(drop)
}
