//! Dead-lettering events whose expired lease is one too many.

use posthaste_domain::{Ending, EventId, EventKey};
use tokio_postgres::types::Type;

use crate::frontier::Frontier;
use crate::session::{Session, Sql};

/// Ends pending events that are still expired, with everything that goes with an end.
static ABANDON: Sql = Sql {
    text: "
WITH ended AS (
    DELETE FROM app.webhook_queue q
    USING unnest($1::bigint[], $2::integer[], $3::text[], $4::text[])
          AS g (key, lost_leases, failure_kind, last_error)
    WHERE q.id = g.key AND q.lost_leases = g.lost_leases AND q.lease_until <= app.webhook_now()
    RETURNING q.*, g.failure_kind, g.last_error AS ending
),
endings AS (
    INSERT INTO app.webhook_endings (
        id, updated_at, last_attempted_at, attempts, claims, lost_leases, failure_kind, last_error,
        manual_last_action, manual_last_actor, manual_last_at
    )
    SELECT id, app.webhook_now(), last_attempted_at, attempts, claims, lost_leases + 1, failure_kind, ending,
           manual_last_action, manual_last_actor, manual_last_at
    FROM ended
),
counted AS (
    INSERT INTO app.webhook_counts (pending, retrying, failed)
    SELECT -count(*), -count(*) FILTER (WHERE attempts > 0), count(*) FROM ended HAVING count(*) > 0
),
notices AS (
    INSERT INTO app.webhook_notices (at, event_keys, delivered, attempts)
    SELECT app.webhook_now(), array_agg(id), array_agg(false), array_agg(attempts) FROM ended HAVING count(*) > 0
)
SELECT e.event_id FROM ended JOIN app.webhook_events e USING (id)",
    types: &[Type::INT8_ARRAY, Type::INT4_ARRAY, Type::TEXT_ARRAY, Type::TEXT_ARRAY],
};

pub(super) async fn abandon(
    session: &Session,
    frontier: &mut Frontier,
    abandon_after: u32,
) -> Result<Vec<EventId>, tokio_postgres::Error> {
    let given_up: Vec<(EventKey, Ending)> = frontier
        .expired
        .iter()
        .filter_map(|(key, expired)| {
            Some((*key, Ending::after_lost_leases(expired.lost_leases + 1, abandon_after)?))
        })
        .collect();
    if given_up.is_empty() {
        return Ok(Vec::new());
    }
    let keys: Vec<i64> = given_up.iter().map(|(key, _)| key.0).collect();
    let lost = |key| frontier.expired[key].lost_leases;
    let lost: Vec<i32> =
        given_up.iter().map(|(key, _)| i32::try_from(lost(key)).unwrap_or(i32::MAX)).collect();
    let kinds: Vec<&str> = given_up.iter().map(|(_, ending)| ending.failure_kind().as_str()).collect();
    let errors: Vec<&str> = given_up.iter().map(|(_, ending)| ending.last_error()).collect();
    let rows = session.transact(&ABANDON, &[&keys, &lost, &kinds, &errors]).await?;
    for (key, _) in &given_up {
        frontier.expired.remove(key);
    }
    rows.iter().map(|row| Ok(EventId::stored(row.try_get(0)?))).collect()
}
