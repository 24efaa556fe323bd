//! Executes a claim plan: runs the statements that grant leases, and updates the budget and the index.

use bytes::Bytes;
use futures_util::future::join;
use posthaste_claimable::{ClaimBudget, ClaimPlan, ClaimableIndex, LeftRow, RangeResult, UngrantedRows};
use posthaste_domain::{
    ClaimId, DestinationId, DestinationUrl, EventId, EventKey, Lease, LeasePayload, MessageId, Timestamp,
    Trigger,
};
use posthaste_store::{ClaimRequest, PayloadBudget};
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use super::grant_sql::{GRANT_RANGES, TAKE_OVER_EXPIRED};
use super::granted::GrantedLeases;
use super::limited::LimitedClaims;
use crate::convert::{PgTimestamp, bytes, lease_token, micros, unsigned};
use crate::expiry_check::reschedule_expiry_checks;
use crate::notices::{EventReferences, NoticeReferences};
use crate::session::{Session, Sql, lock_timeout, short_lock_timeout};

/// Reschedules the expiry checks of the claims $1, which have lost leases to a takeover or to abandonment.
static RESCHEDULE_LOST_CLAIMS: Sql = Sql {
    text: reschedule_expiry_checks!("SELECT DISTINCT unnest($1::uuid[])", ""),
    types: &[Type::UUID_ARRAY],
};

/// Waits for the turn to grant leases, 250 ms at most. A claim of 500 events takes about ten milliseconds, and several may wait.
static WAIT_FOR_TURN: Sql = Sql {
    text: concat!(
        "SELECT set_config('lock_timeout', '",
        short_lock_timeout!(),
        "', true), pg_advisory_xact_lock(7526, 4), set_config('lock_timeout', '",
        lock_timeout!(),
        "', true)"
    ),
    types: &[],
};

/// Grants the leases of a plan. Adds them to `leases`, deducts them from the budget, and removes the claimed ranges
/// from the index. Unless `is_checked`, grants none within ranges if the claim has been granted leases before. Returns the rows of
/// destinations that are throttled or in FIFO order, which it leaves.
pub(super) async fn execute_plan(
    session: &Session,
    claimable: &mut ClaimableIndex,
    request: &ClaimRequest,
    plan: &ClaimPlan,
    is_checked: bool,
    budget: &mut ClaimBudget,
    leases: &mut GrantedLeases,
) -> Result<LimitedClaims, tokio_postgres::Error> {
    let mut limited = LimitedClaims::default();
    if !plan.takeovers.is_empty() {
        limited.append(take_over(session, claimable, request, &plan.takeovers, budget, leases).await?);
    }
    if !plan.range_claims.is_empty() {
        limited.append(claim_ranges(session, claimable, request, plan, is_checked, budget, leases).await?);
    }
    Ok(limited)
}

/// Grants new leases on events whose lease has expired, and reschedules the expiry checks of the claims that lost them. Returns the
/// events of destinations that are throttled or in FIFO order.
async fn take_over(
    session: &Session,
    claimable: &mut ClaimableIndex,
    request: &ClaimRequest,
    expired: &[EventKey],
    budget: &mut ClaimBudget,
    leases: &mut GrantedLeases,
) -> Result<LimitedClaims, tokio_postgres::Error> {
    let keys: Vec<i64> = expired.iter().map(|key| key.0).collect();
    let grant = Grant::new(request, budget.payloads());
    let rows = grant.run(session, &TAKE_OVER_EXPIRED, &[&keys]).await?;
    let mut lost_claims: Vec<Uuid> = Vec::new();
    let mut limited = LimitedClaims::default();
    // Whether the index keeps the expired lease.
    let mut kept = vec![false; expired.len()];
    for (index, row) in parse_rows(grant.id, &rows)? {
        match row {
            GrantRow::Granted { lease, references, lost_claim, .. } => {
                budget.take_lease(&claimable.receivers, &lease);
                leases.push(lease, references);
                lost_claims.extend(lost_claim);
            }
            GrantRow::Paused { destination, until } => {
                claimable.record_pause(destination, until);
                kept[index] = true;
            }
            GrantRow::Limited { destination } => {
                limited.add_takeover(destination, expired[index]);
                kept[index] = true;
            }
            GrantRow::Ungranted(UngrantedRows { first_left: Some(_), .. }) => {
                kept[index] = true;
                if let Some(expired) = claimable.expired.get(&expired[index]) {
                    budget.keep_back(expired.destination);
                }
            }
            // Another claim is taking the event over.
            GrantRow::Ungranted(_) => {}
        }
    }
    // An event that is neither granted nor kept has been renewed or taken over. The row of its claim holds the time of the
    // next check.
    for (key, _) in expired.iter().zip(kept).filter(|(_, kept)| !kept) {
        claimable.expired.remove(key);
    }
    reschedule_lost_claims(session, &lost_claims).await?;
    Ok(limited)
}

/// Reschedules the expiry checks of claims that have lost leases, so that the checks find the leases that they still
/// hold.
pub(super) async fn reschedule_lost_claims(
    session: &Session,
    lost_claims: &[Uuid],
) -> Result<(), tokio_postgres::Error> {
    if !lost_claims.is_empty() {
        session.transact(&RESCHEDULE_LOST_CLAIMS, &[&lost_claims]).await?;
    }
    Ok(())
}

/// Grants leases within the planned ranges. Returns the ranges of destinations that are throttled or in FIFO order.
async fn claim_ranges(
    session: &Session,
    claimable: &mut ClaimableIndex,
    request: &ClaimRequest,
    plan: &ClaimPlan,
    is_checked: bool,
    budget: &mut ClaimBudget,
    leases: &mut GrantedLeases,
) -> Result<LimitedClaims, tokio_postgres::Error> {
    let range_claims = &plan.range_claims;
    let destinations: Vec<i64> = range_claims.iter().map(|claim| claim.destination.0).collect();
    let lows: Vec<i64> = range_claims.iter().map(|claim| claim.range.low).collect();
    let highs: Vec<i64> = range_claims.iter().map(|claim| claim.range.high).collect();
    let limits: Vec<i64> =
        range_claims.iter().map(|claim| i64::try_from(claim.limit).unwrap_or(i64::MAX)).collect();
    let grant = Grant::new(request, budget.payloads());
    let ranges: [Param<'_>; 5] = [&destinations, &lows, &highs, &limits, &is_checked];
    let rows = grant.run(session, &GRANT_RANGES, &ranges).await?;
    if rows.is_empty() && !is_checked {
        // The claim may be a repeated one, and the ranges may hold rows.
        return Ok(LimitedClaims::default());
    }

    let mut results = vec![RangeResult::default(); range_claims.len()];
    let mut paused = vec![false; range_claims.len()];
    let mut limited = LimitedClaims::default();
    leases.reserve(rows.len());
    for (index, row) in parse_rows(grant.id, &rows)? {
        let result = &mut results[index];
        match row {
            GrantRow::Granted { position, lease, references, .. } => {
                budget.take_lease(&claimable.receivers, &lease);
                leases.push(lease, references);
                result.granted += 1;
                result.granted_to = result.granted_to.max(Some(position));
            }
            GrantRow::Paused { destination, until } => {
                claimable.record_pause(destination, until);
                paused[index] = true;
            }
            GrantRow::Limited { destination } => {
                limited.add_range(destination, range_claims[index]);
                paused[index] = true;
            }
            GrantRow::Ungranted(rows) => {
                if let Some(left) = rows.first_left {
                    let destination = range_claims[index].destination;
                    budget.keep_back(destination);
                    claimable.record_left(destination, left, plan.planned_at);
                }
                result.remainder = Some(rows);
            }
        }
    }
    for ((claim, result), paused) in range_claims.iter().zip(results).zip(paused) {
        if !paused && let Some(locked) = claimable.record_claimed(claim, &result) {
            budget.skip_locked(claim.destination, locked);
        }
    }
    Ok(limited)
}

/// Grants a lease on one event of a destination, in a transaction that the caller has begun.
pub(crate) async fn grant_in_transaction(
    session: &Session,
    request: &ClaimRequest,
    destination: i64,
) -> Result<Option<Lease>, tokio_postgres::Error> {
    let grant = Grant::new(request, &PayloadBudget::new(request));
    let (destinations, lows, highs, limits) = (vec![destination], vec![0_i64], vec![i64::MAX], vec![1_i64]);
    let ranges: [Param<'_>; 5] = [&destinations, &lows, &highs, &limits, &true];
    let rows = session.query(&GRANT_RANGES, &[&grant.params()[..], &[&true], &ranges].concat()).await?;
    let granted = parse_rows(grant.id, &rows)?.into_iter().find_map(|(_, row)| match row {
        GrantRow::Granted { lease, .. } => Some(lease),
        _ => None,
    });
    Ok(granted)
}

pub(super) type Param<'a> = &'a (dyn ToSql + Sync);

/// The parameters that the statements of this module share.
pub(super) struct Grant<'a> {
    /// The random id of this grant, which fences its leases.
    pub(super) id: Uuid,
    request: Uuid,
    owner: &'a str,
    lease_us: i64,
    payload_bytes_max: i64,
    event_payload_bytes_max: i64,
    is_first_free: bool,
    inline_payload_bytes_max: i64,
}

impl<'a> Grant<'a> {
    #[expect(clippy::disallowed_methods, reason = "lease tokens are random, and nothing is decided by them")]
    pub(super) fn new(request: &'a ClaimRequest, payloads: &PayloadBudget) -> Self {
        Self {
            id: ClaimId::random(rand::random()).as_uuid(),
            request: request.id.as_uuid(),
            owner: request.owner.as_str(),
            lease_us: micros(request.lease),
            payload_bytes_max: bytes(payloads.bytes_left()),
            event_payload_bytes_max: bytes(payloads.event_bytes_max()),
            is_first_free: !payloads.has_granted(),
            inline_payload_bytes_max: bytes(request.inline_payload_bytes_max),
        }
    }

    pub(super) fn params(&self) -> [Param<'_>; 8] {
        [
            &self.id,
            &self.owner,
            &self.lease_us,
            &self.payload_bytes_max,
            &self.event_payload_bytes_max,
            &self.is_first_free,
            &self.request,
            &self.inline_payload_bytes_max,
        ]
    }

    /// Runs a statement that grants leases when this claim has its turn. A claim that waits too long is granted leases out of
    /// turn: the worker whose turn it is may have been stopped in the middle of its claim.
    async fn run(
        &self,
        session: &Session,
        sql: &Sql,
        candidates: &[Param<'_>],
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let params = |is_out_of_turn| [&self.params()[..], &[is_out_of_turn], candidates].concat();
        let rows = session.transact(sql, &params(&false)).await?;
        if has_turn(&rows)? {
            return Ok(rows);
        }
        match run_in_turn(session, sql, &params(&false)).await? {
            Some(rows) => Ok(rows),
            None => session.transact(sql, &params(&true)).await,
        }
    }
}

/// Returns whether a statement that grants leases had its turn.
fn has_turn(rows: &[Row]) -> Result<bool, tokio_postgres::Error> {
    rows.first().map_or(Ok(true), |row| row.try_get(0).map(|n: i64| n != 0))
}

/// Waits for the turn in a statement of its own, so that the statement that grants leases sees what the claims before it have
/// changed. Both share a transaction and a round trip. PostgreSQL serves claims that wait in the order of their arrival. Returns none
/// if the turn did not come in time.
async fn run_in_turn(
    session: &Session,
    sql: &Sql,
    params: &[Param<'_>],
) -> Result<Option<Vec<Row>>, tokio_postgres::Error> {
    let wait = session.prepare(&WAIT_FOR_TURN).await?;
    let grant = session.prepare(sql).await?;
    let work = async {
        let (waited, rows) = join(session.send(&wait, &[]), session.send(&grant, params)).await;
        match waited {
            Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => Ok(None),
            waited => waited.and(rows).map(Some),
        }
    };
    session.transaction(work).await
}

/// One row that a statement of this module returns.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all rows are granted leases, and a box per lease would cost more"
)]
pub(super) enum GrantRow {
    Granted {
        position: i64,
        lease: Lease,
        references: EventReferences,
        lost_claim: Option<Uuid>,
    },
    Paused {
        destination: DestinationId,
        until: Timestamp,
    },
    /// The destination is throttled or in FIFO order.
    Limited {
        destination: DestinationId,
    },
    Ungranted(UngrantedRows),
}

/// Parses the rows of a statement. Returns each with the index of its range or key, in that order.
pub(super) fn parse_rows(claim: Uuid, rows: &[Row]) -> Result<Vec<(usize, GrantRow)>, tokio_postgres::Error> {
    let mut parsed = Vec::with_capacity(rows.len());
    for row in rows {
        let index = usize::try_from(row.try_get::<_, i64>(0)? - 1).expect("WITH ORDINALITY numbers from one");
        let position = row.try_get::<_, Option<i64>>(1)?;
        let row = match (position, row.try_get::<_, Option<PgTimestamp>>(14)?) {
            (Some(position), _) => GrantRow::Granted {
                position,
                lease: parse_lease(claim, row)?,
                references: parse_references(row)?,
                lost_claim: row.try_get(19)?,
            },
            (None, Some(PgTimestamp(until))) => {
                GrantRow::Paused { destination: DestinationId(row.try_get(5)?), until }
            }
            (None, None) if row.try_get::<_, Option<bool>>(13)?.is_some() => {
                GrantRow::Limited { destination: DestinationId(row.try_get(5)?) }
            }
            (None, None) => GrantRow::Ungranted(UngrantedRows {
                rows: usize::try_from(row.try_get::<_, i32>(11)?).unwrap_or(0),
                locked_rows: usize::try_from(row.try_get::<_, i32>(12)?).unwrap_or(0),
                last_position: row.try_get(5)?,
                first_left: parse_left(row)?,
            }),
        };
        parsed.push((index, row));
    }
    parsed.sort_by_key(|(index, row)| match row {
        GrantRow::Granted { position, .. } => (*index, *position),
        _ => (*index, i64::MAX),
    });
    Ok(parsed)
}

/// Parses the first row whose payload did not fit.
fn parse_left(row: &Row) -> Result<Option<LeftRow>, tokio_postgres::Error> {
    let (position, bytes) = (row.try_get::<_, Option<i64>>(2)?, row.try_get::<_, Option<i32>>(16)?);
    Ok(position.zip(bytes).map(|(position, payload_bytes)| LeftRow {
        position,
        payload_bytes: usize::try_from(payload_bytes).unwrap_or(usize::MAX),
    }))
}

/// Parses the references of the event of a row, in the same column of all these statements.
pub(super) fn parse_references(row: &Row) -> Result<EventReferences, tokio_postgres::Error> {
    let Some(references) = row.try_get::<_, Option<Vec<Option<String>>>>(20)? else { return Ok(None) };
    let [webhook_id, session_id, payment_request_id] =
        references.try_into().expect("the statement builds an array of three");
    Ok(Some(Box::new(NoticeReferences { webhook_id, session_id, payment_request_id })))
}

/// Parses a row of [`GRANT_RANGES`], [`TAKE_OVER_EXPIRED`] or `REPEAT_CLAIM`, which select the same columns.
/// `claim` is the id of the grant.
pub(super) fn parse_lease(claim: Uuid, row: &Row) -> Result<Lease, tokio_postgres::Error> {
    let key = EventKey(row.try_get(2)?);
    let attempts = unsigned(row.try_get(11)?);
    let payload = match (row.try_get::<_, Option<&[u8]>>(9)?, unsigned(row.try_get(16)?)) {
        (None, bytes @ 1..) => LeasePayload::Stored { bytes: usize::try_from(bytes).unwrap_or(usize::MAX) },
        (payload, _) => LeasePayload::Loaded(Bytes::copy_from_slice(payload.unwrap_or_default())),
    };
    let (due, now): (PgTimestamp, PgTimestamp) = (row.try_get(14)?, row.try_get(15)?);
    let (event_id, message_id) =
        (EventId::from_stored(row.try_get(3)?), MessageId::from_uuid(row.try_get(4)?));
    Ok(Lease {
        key,
        token: lease_token(claim, key),
        // NULL for an event of a message; empty for a direct event that is no replay.
        wire_id: match row.try_get::<_, Option<&str>>(17)? {
            None => EventId::from_message(message_id),
            Some("") => event_id.clone(),
            Some(replay_of) => EventId::from_stored(replay_of.to_owned()),
        },
        event_id,
        message_id,
        destination_id: DestinationId(row.try_get(5)?),
        destination_url: DestinationUrl::from_stored(row.try_get(6)?),
        profile_version: row.try_get(18)?,
        event_type: row.try_get(7)?,
        content_type: row.try_get(8)?,
        payload,
        traceparent: row.try_get(10)?,
        attempts,
        max_attempts: unsigned(row.try_get(12)?),
        trigger: Trigger::for_attempt(row.try_get(13)?, attempts),
        overdue: now.0.since(due.0),
    })
}
