//! The statement that grants leases.

use bytes::Bytes;
use posthaste_domain::{
    DestinationId, DestinationUrl, EventId, EventKey, Lease, LeaseToken, MessageId, Trigger,
};
use posthaste_store::{ClaimRequest, ManualAction};
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::frontier::{Ask, Frontier, Plan, Room};
use crate::moment::{Moment, micros};
use crate::number::count;
use crate::session::{Session, Sql};

/// Grants leases on the rows that `$picked` yields as (n, url, lost_claim, place), and notes the claim. Picked rows are
/// locked, and so stay at their place until they are updated. No indexed column changes, so a lease costs no index
/// entry. $1 claim, $2 owner, $3 length; from $4 on, what is asked for.
macro_rules! granting {
    ($picked:literal, $and:literal) => {
        concat!(
            "
WITH ",
            $picked,
            ",
granted AS (
    UPDATE app.webhook_queue q
    SET claims = q.claims + 1,
        lost_leases = q.lost_leases + (p.lost_claim IS NOT NULL)::integer,
        updated_at = app.webhook_now(),
        lease_until = app.webhook_now() + $3 * interval '1 microsecond',
        lease_token = gen_random_uuid(),
        lease_claim = $1
    FROM picked p
    WHERE q.ctid = p.place
    RETURNING p.n, p.url, p.lost_claim, q.id, q.turn, q.lease_token, q.attempts, q.manual_last_action,
              q.next_attempt_at
),
noted AS (
    INSERT INTO app.webhook_claims AS c (id, check_at, owner, keys)
    SELECT $1, app.webhook_now() + $3 * interval '1 microsecond', $2, array_agg(g.id)
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
JOIN app.webhook_messages m ON m.id = e.message_id",
            $and
        )
    };
}

/// One index range per destination that is asked for, by webhook_queue_destination_turn. Rows that somebody else is
/// about to claim are skipped. What is paused is told instead of granted.
pub(super) static GRANT: Sql = Sql {
    text: granting!(
        "asked AS MATERIALIZED (
    SELECT a.n, a.destination_id, a.low, a.high, a.want, d.url, d.paused_until
    FROM unnest($4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[])
         WITH ORDINALITY AS a (destination_id, low, high, want, n)
    JOIN app.webhook_destinations d ON d.id = a.destination_id
),
picked AS MATERIALIZED (
    SELECT a.n, a.url, NULL::uuid AS lost_claim, q.place
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
)",
        "
UNION ALL
SELECT a.n, NULL, NULL, NULL, NULL, NULL, a.destination_id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       a.paused_until, NULL, NULL
FROM asked a
WHERE a.paused_until > app.webhook_now()"
    ),
    types: &[
        Type::UUID,
        Type::TEXT,
        Type::INT8,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
    ],
};

/// Expired leases, by their keys. What is paused is told instead of granted.
static TAKE_OVER: Sql = Sql {
    text: granting!(
        "picked AS MATERIALIZED (
    SELECT 0::bigint AS n, d.url, q.lost_claim, q.place
    FROM unnest($4::bigint[]) AS k (key)
    CROSS JOIN LATERAL (
        SELECT q.ctid AS place, q.lease_claim AS lost_claim, q.destination_id
        FROM app.webhook_queue q
        WHERE q.id = k.key AND q.lease_until <= app.webhook_now()
        FOR UPDATE SKIP LOCKED
    ) q
    JOIN app.webhook_destinations d ON d.id = q.destination_id
    WHERE d.paused_until IS NULL OR d.paused_until <= app.webhook_now()
)",
        "
UNION ALL
SELECT 0, NULL, q.id, NULL, NULL, NULL, q.destination_id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       d.paused_until, NULL, NULL
FROM unnest($4::bigint[]) AS k (key)
JOIN app.webhook_queue q ON q.id = k.key
JOIN app.webhook_destinations d ON d.id = q.destination_id
WHERE d.paused_until > app.webhook_now()"
    ),
    types: &[Type::UUID, Type::TEXT, Type::INT8, Type::INT8_ARRAY],
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
    if !plan.takeovers.is_empty() {
        take_over(session, frontier, request, &plan.takeovers, room, leases).await?;
    }
    if !plan.asks.is_empty() {
        ask(session, frontier, request, &plan.asks, room, leases).await?;
    }
    Ok(())
}

async fn take_over(
    session: &Session,
    frontier: &mut Frontier,
    request: &ClaimRequest,
    expired: &[EventKey],
    room: &mut Room,
    leases: &mut Vec<Lease>,
) -> Result<(), tokio_postgres::Error> {
    let keys: Vec<i64> = expired.iter().map(|key| key.0).collect();
    let (lease_us, claim, owner) = (micros(request.lease), request.id.as_uuid(), request.owner.as_str());
    let rows = session.transact(&TAKE_OVER, &[&claim, &owner, &lease_us, &keys]).await?;
    let mut lost_claims: Vec<Uuid> = Vec::new();
    let mut paused = Vec::new();
    for row in &rows {
        if row.try_get::<_, Option<i64>>(1)?.is_none() {
            frontier.pause(DestinationId(row.try_get(6)?), row.try_get::<_, Moment>(15)?.0);
            paused.push(EventKey(row.try_get(2)?));
            continue;
        }
        let lease = lease(row)?;
        room.take(lease.destination_id, 1, lease.is_retry());
        leases.push(lease);
        lost_claims.push(row.try_get(17)?);
    }
    // Of the others, what was not granted has been renewed or taken over; its claim says when to look again.
    for key in expired.iter().filter(|key| !paused.contains(key)) {
        frontier.expired.remove(key);
    }
    if !lost_claims.is_empty() {
        session.transact(&RECHECK, &[&lost_claims]).await?;
    }
    Ok(())
}

async fn ask(
    session: &Session,
    frontier: &mut Frontier,
    request: &ClaimRequest,
    asks: &[Ask],
    room: &mut Room,
    leases: &mut Vec<Lease>,
) -> Result<(), tokio_postgres::Error> {
    let destinations: Vec<i64> = asks.iter().map(|ask| ask.destination.0).collect();
    let lows: Vec<i64> = asks.iter().map(|ask| ask.span.low).collect();
    let highs: Vec<i64> = asks.iter().map(|ask| ask.span.high).collect();
    let wants: Vec<i64> = asks.iter().map(|ask| i64::try_from(ask.want).unwrap_or(i64::MAX)).collect();
    let (lease_us, claim, owner) = (micros(request.lease), request.id.as_uuid(), request.owner.as_str());
    let rows =
        session.transact(&GRANT, &[&claim, &owner, &lease_us, &destinations, &lows, &highs, &wants]).await?;

    let mut granted: Vec<(usize, Option<i64>)> = vec![(0, None); asks.len()];
    let mut paused = vec![false; asks.len()];
    leases.reserve(rows.len());
    for row in &rows {
        let ask = usize::try_from(row.try_get::<_, i64>(0)? - 1).expect("asks are numbered from one");
        let Some(turn) = row.try_get::<_, Option<i64>>(1)? else {
            frontier.pause(DestinationId(row.try_get(6)?), row.try_get::<_, Moment>(15)?.0);
            paused[ask] = true;
            continue;
        };
        let lease = lease(row)?;
        room.take(lease.destination_id, 1, lease.is_retry());
        leases.push(lease);
        let (count, last) = &mut granted[ask];
        *count += 1;
        *last = (*last).max(Some(turn));
    }
    for ((ask, (count, last)), paused) in asks.iter().zip(granted).zip(paused) {
        if !paused {
            frontier.used(ask, count, last);
        }
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
