//! The statement that grants leases.

use std::collections::HashMap;

use bytes::Bytes;
use posthaste_domain::{
    DestinationId, DestinationUrl, EventId, EventKey, Lease, LeaseToken, MessageId, Trigger,
};
use posthaste_store::{ClaimRequest, ManualAction};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::discover::count;
use crate::frontier::{Frontier, Plan, Room};
use crate::moment::{Moment, micros};
use crate::session::{Session, Sql};

/// One index range per destination that is asked for (webhook_queue_destination_turn), and expired leases by their
/// keys. No indexed column changes, so a lease costs no index entry. Rows that somebody else is about to claim are
/// skipped; those that are picked are locked, and so stay where they are until they are updated. What is paused is told instead of granted.
pub(super) static GRANT: Sql = Sql {
    text: "
WITH asked AS MATERIALIZED (
    SELECT a.n, a.destination_id, a.low, a.high, a.want, d.url, d.paused_until
    FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[])
         WITH ORDINALITY AS a (destination_id, low, high, want, n)
    JOIN app.webhook_destinations d ON d.id = a.destination_id
),
picked AS MATERIALIZED (
    SELECT a.n, a.url, q.place, NULL::uuid AS lost_claim
    FROM asked a
    CROSS JOIN LATERAL (
        SELECT q.ctid AS place
        FROM app.webhook_queue q
        WHERE q.destination_id = a.destination_id AND q.turn > a.low AND q.turn <= a.high
              AND q.lease_until IS NULL
        ORDER BY q.turn
        LIMIT a.want
        FOR UPDATE SKIP LOCKED
    ) q
    WHERE a.paused_until IS NULL OR a.paused_until <= app.webhook_now()
    UNION ALL
    SELECT 0, d.url, q.place, q.lease_claim
    FROM unnest($5::bigint[]) AS k (key)
    CROSS JOIN LATERAL (
        SELECT q.ctid AS place, q.lease_claim, q.destination_id
        FROM app.webhook_queue q
        WHERE q.id = k.key AND q.lease_until <= app.webhook_now()
        FOR UPDATE SKIP LOCKED
    ) q
    JOIN app.webhook_destinations d ON d.id = q.destination_id
    WHERE d.paused_until IS NULL OR d.paused_until <= app.webhook_now()
),
granted AS (
    UPDATE app.webhook_queue q
    SET claims = q.claims + 1,
        lost_leases = q.lost_leases + (p.lost_claim IS NOT NULL)::integer,
        updated_at = app.webhook_now(),
        lease_until = app.webhook_now() + $6 * interval '1 microsecond',
        lease_token = gen_random_uuid(),
        lease_claim = $7,
        lease_owner = $8
    FROM picked p
    WHERE q.ctid = p.place
    RETURNING p.n, p.url, p.lost_claim, q.id, q.turn, q.lease_token, q.attempts, q.manual_last_action, q.next_attempt_at
),
noted AS (
    INSERT INTO app.webhook_claims AS c (id, check_at, keys)
    SELECT $7, app.webhook_now() + $6 * interval '1 microsecond', array_agg(g.id)
    FROM granted g
    HAVING count(*) > 0
    ON CONFLICT (id) DO UPDATE
    SET keys = ARRAY(SELECT DISTINCT unnest(c.keys || excluded.keys)), check_at = least(c.check_at, excluded.check_at)
)
SELECT g.n, g.turn, g.id, g.lease_token, e.event_id, e.message_id, e.destination_id, g.url, e.event_type,
       m.content_type, m.payload, m.traceparent, g.attempts, e.max_attempts, g.manual_last_action,
       g.next_attempt_at, app.webhook_now(), g.lost_claim
FROM granted g
JOIN app.webhook_events e ON e.id = g.id
JOIN app.webhook_messages m ON m.id = e.message_id
UNION ALL
SELECT a.n, NULL, NULL, NULL, NULL, NULL, a.destination_id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       a.paused_until, NULL, NULL
FROM asked a
WHERE a.paused_until > app.webhook_now()",
    types: &[
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8,
        Type::UUID,
        Type::TEXT,
    ],
};

/// Claims that lost some of their leases are looked at again when the first of those that they kept can have expired.
static RECHECK: Sql = Sql {
    text: "
UPDATE app.webhook_claims c
SET check_at = l.until
FROM (
    SELECT q.lease_claim, min(q.lease_until) AS until
    FROM app.webhook_claims c
    CROSS JOIN LATERAL unnest(c.keys) AS k (key)
    JOIN app.webhook_queue q ON q.id = k.key AND q.lease_claim = c.id
    WHERE c.id = ANY ($1)
    GROUP BY q.lease_claim
) l
WHERE c.id = l.lease_claim",
    types: &[Type::UUID_ARRAY],
};

/// Carries out a plan: leases come in, what was asked for is used up, and the room gets smaller.
pub(super) async fn grant(
    session: &Session,
    frontier: &mut Frontier,
    request: &ClaimRequest,
    plan: &Plan,
    room: &mut Room,
    leases: &mut Vec<Lease>,
) -> Result<(), tokio_postgres::Error> {
    let destinations: Vec<i64> = plan.asks.iter().map(|ask| ask.destination.0).collect();
    let lows: Vec<i64> = plan.asks.iter().map(|ask| ask.span.low).collect();
    let highs: Vec<i64> = plan.asks.iter().map(|ask| ask.span.high).collect();
    let wants: Vec<i64> = plan.asks.iter().map(|ask| i64::try_from(ask.want).unwrap_or(i64::MAX)).collect();
    let takeovers: Vec<i64> = plan.takeovers.iter().map(|key| key.0).collect();
    let (lease_us, claim, owner) = (micros(request.lease), request.id.as_uuid(), request.owner.as_str());
    let rows = session
        .transact(&GRANT, &[&destinations, &lows, &highs, &wants, &takeovers, &lease_us, &claim, &owner])
        .await?;

    let mut granted: HashMap<usize, (usize, i64)> = HashMap::new();
    let mut paused = Vec::new();
    let mut lost_claims: Vec<uuid::Uuid> = Vec::new();
    leases.reserve(rows.len());
    for row in &rows {
        let ask = usize::try_from(row.try_get::<_, i64>(0)?).expect("asks are numbered from one");
        let Some(turn) = row.try_get::<_, Option<i64>>(1)? else {
            frontier.pause(DestinationId(row.try_get(6)?), row.try_get::<_, Moment>(15)?.0);
            paused.push(ask);
            continue;
        };
        let lease = lease(row)?;
        room.take(lease.destination_id, 1, lease.is_retry());
        leases.push(lease);
        lost_claims.extend(row.try_get::<_, Option<uuid::Uuid>>(17)?);
        let (count, last) = granted.entry(ask).or_insert((0, turn));
        *count += 1;
        *last = (*last).max(turn);
    }
    for (ask, number) in plan.asks.iter().zip(1..) {
        if !paused.contains(&number) {
            let (count, last) = granted.get(&number).map_or((0, None), |(count, last)| (*count, Some(*last)));
            frontier.used(ask, count, last);
        }
    }
    // What was not granted has been renewed or taken over; its claim says when to look again.
    for key in &plan.takeovers {
        frontier.expired.remove(key);
    }
    if !lost_claims.is_empty() {
        session.transact(&RECHECK, &[&lost_claims]).await?;
    }
    Ok(())
}

/// Columns as GRANT and AGAIN select them.
pub(super) fn lease(row: &Row) -> Result<Lease, tokio_postgres::Error> {
    let attempts = count(row.try_get(12)?);
    let requeued =
        row.try_get::<_, Option<&str>>(14)?.and_then(ManualAction::from_word) == Some(ManualAction::Requeue);
    let (due, now): (Moment, Moment) = (row.try_get(15)?, row.try_get(16)?);
    Ok(Lease {
        key: EventKey(row.try_get(2)?),
        token: LeaseToken::from_uuid(row.try_get(3)?),
        event_id: EventId::stored(row.try_get(4)?),
        message_id: MessageId::from_uuid(row.try_get(5)?),
        destination_id: DestinationId(row.try_get(6)?),
        destination_url: DestinationUrl::stored(row.try_get(7)?),
        event_type: row.try_get(8)?,
        content_type: row.try_get(9)?,
        payload: Bytes::copy_from_slice(row.try_get::<_, Option<&[u8]>>(10)?.unwrap_or_default()),
        traceparent: row.try_get(11)?,
        attempts,
        max_attempts: count(row.try_get(13)?),
        trigger: Trigger::of(requeued, attempts),
        overdue: now.0.since(due.0),
    })
}
