//! Abandoned events: an event that has lost too many leases in a row is dead-lettered instead of claimed again.

use posthaste_claimable::ClaimableIndex;
use posthaste_domain::{EventId, EventKey, TerminalState};
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::grant;
use crate::fail::{insert_failures, insert_notices};
use crate::session::{Session, Sql};

/// Moves events whose lease is still expired to their terminal state, with counts and notices. `lost_leases` fences the
/// update: it differs once another worker has taken the event over.
static ABANDON_EVENTS: Sql = Sql {
    text: concat!(
        "
WITH ended AS (
    DELETE FROM app.webhook_queue q
    USING unnest($1::bigint[], $2::integer[], $3::text[], $4::text[])
          AS g (key, lost_leases, failure_kind, failure_error)
    WHERE q.id = g.key AND q.lost_leases = g.lost_leases AND q.lease_until <= app.webhook_now()
    RETURNING q.id, q.destination_id, q.last_attempted_at, q.attempts, q.attempts > 0 AS was_retrying, q.claims,
              q.lost_leases + 1 AS lost_leases, g.failure_kind, g.failure_error, q.lease_claim
),",
        insert_failures!(),
        ",",
        insert_notices!("SELECT id AS key, failure_kind, attempts, id AS n FROM ended"),
        "
SELECT e.event_id, x.lease_claim FROM ended x JOIN app.webhook_events e ON e.id = x.id"
    ),
    types: &[Type::INT8_ARRAY, Type::INT4_ARRAY, Type::TEXT_ARRAY, Type::TEXT_ARRAY],
};

/// Dead-letters the expired events that have now lost `abandon_after` leases in a row, and returns their ids.
pub(super) async fn abandon_expired(
    session: &Session,
    claimable: &mut ClaimableIndex,
    abandon_after: u32,
) -> Result<Vec<EventId>, tokio_postgres::Error> {
    let abandoned: Vec<(EventKey, TerminalState)> = claimable
        .expired
        .iter()
        .filter_map(|(key, expired)| {
            Some((*key, TerminalState::after_lost_leases(expired.lost_leases + 1, abandon_after)?))
        })
        .collect();
    if abandoned.is_empty() {
        return Ok(Vec::new());
    }
    let keys: Vec<i64> = abandoned.iter().map(|(key, _)| key.0).collect();
    let lost_leases = |key| claimable.expired[key].lost_leases;
    let lost_leases: Vec<i32> =
        abandoned.iter().map(|(key, _)| i32::try_from(lost_leases(key)).unwrap_or(i32::MAX)).collect();
    let kinds: Vec<&str> = abandoned.iter().map(|(_, state)| state.failure_kind().as_str()).collect();
    let errors: Vec<&str> = abandoned.iter().map(|(_, state)| state.last_error()).collect();
    let rows = session.transact(&ABANDON_EVENTS, &[&keys, &lost_leases, &kinds, &errors]).await?;
    for (key, _) in &abandoned {
        claimable.expired.remove(key);
    }
    let lost_claims = rows.iter().map(|row| row.try_get(1)).collect::<Result<Vec<Uuid>, _>>()?;
    grant::reschedule_lost_claims(session, &lost_claims).await?;
    rows.iter().map(|row| Ok(EventId::from_stored(row.try_get(0)?))).collect()
}
