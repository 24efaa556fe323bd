//! The destinations and applications that a claim has locked: their throttles, and the heads of lines.

use std::collections::BTreeMap;

use futures_util::future::{join, join3, join5};
use posthaste_domain::{ApplicationId, DestinationId, EventKey, TerminalState, Throttle, Timestamp};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::super::grant::Param;
use crate::convert::{PgTimestamp, unsigned};
use crate::session::{BEGIN_SHORT_LOCK_WAIT, Session, Sql, lock_timeout};

/// Locks the throttled applications of destinations. Uses indexes webhook_destinations_id and webhook_applications_id.
static LOCK_APPLICATIONS: Sql = Sql {
    text: "
SELECT a.id, a.throttle_per_second, a.throttle_spent_until
FROM app.webhook_applications a
WHERE a.id = ANY (ARRAY(SELECT d.app_id FROM app.webhook_destinations d WHERE d.id = ANY ($1)))
      AND a.throttle_per_second IS NOT NULL
ORDER BY a.id
FOR NO KEY UPDATE",
    types: &[Type::INT8_ARRAY],
};

/// Locks destinations. Producers that enqueue for them need not wait. Uses index webhook_destinations_id.
static LOCK_DESTINATIONS: Sql = Sql {
    text: "
SELECT d.id, d.app_id, d.throttle_per_second, d.throttle_spent_until, coalesce(d.is_fifo, false),
       CASE WHEN d.paused_until > app.webhook_now()
            THEN least(d.paused_until, app.webhook_now() + interval '5 seconds') END,
       app.webhook_now()
FROM app.webhook_destinations d
WHERE d.id = ANY ($1)
ORDER BY d.id
FOR NO KEY UPDATE",
    types: &[Type::INT8_ARRAY],
};

/// Ends the short waits for locks: the locks that a stopped worker may hold are taken.
static WAIT_LONGER_FOR_LOCKS: Sql =
    Sql { text: concat!("SELECT set_config('lock_timeout', '", lock_timeout!(), "', true)"), types: &[] };

/// Reads the heads of the lines among the locked destinations: the leases that the line has, whether one of them is live, the first
/// expired one, and the first pending event; how many leases in a row a head with a lease had lost before; and whether an empty line
/// has events outside of it. Uses indexes webhook_queue_id and webhook_queue_line.
static HEADS: Sql = Sql {
    text: "
SELECT d.id, l.keys, coalesce(l.is_live, false) OR coalesce(h.lease_until > app.webhook_now(), false),
       coalesce(l.expired, h.id),
       l.expired IS NULL AND h.lease_until IS NULL AND h.next_attempt_at > app.webhook_now(),
       h.next_attempt_at, coalesce(l.attempts, h.attempts),
       h.id IS NULL AND EXISTS (SELECT FROM app.webhook_queue q WHERE q.destination_id = d.id AND NOT q.is_fifo),
       CASE WHEN l.expired IS NOT NULL THEN l.lost_leases WHEN h.lease_until IS NOT NULL THEN h.lost_leases END
FROM app.webhook_destinations d
CROSS JOIN LATERAL (
    SELECT array_agg(q.id) AS keys, bool_or(q.lease_until > app.webhook_now()) AS is_live, min(q.id) AS expired,
           (array_agg(q.attempts ORDER BY q.id))[1] AS attempts, (array_agg(q.lost_leases ORDER BY q.id))[1] AS lost_leases
    FROM unnest(d.line_leases) AS k (key)
    JOIN app.webhook_queue q ON q.id = k.key
    WHERE q.lease_until IS NOT NULL
) l
LEFT JOIN LATERAL (
    SELECT q.id, q.next_attempt_at, q.attempts, q.lease_until, q.lost_leases
    FROM app.webhook_queue q
    WHERE q.destination_id = d.id AND q.is_fifo
    ORDER BY q.id
    LIMIT 1
) h ON true
WHERE d.id = ANY ($1) AND d.is_fifo",
    types: &[Type::INT8_ARRAY],
};

/// Puts events into the lines of their destinations $1. An operator may have requeued them while the order changed. Uses index
/// webhook_queue_destination_position.
static JOIN_LINES: Sql = Sql {
    text: "UPDATE app.webhook_queue q SET is_fifo = true WHERE q.destination_id = ANY ($1) AND NOT q.is_fifo",
    types: &[Type::INT8_ARRAY],
};

/// Stores what the claim has spent of the throttles of destinations, and the leases of lines. Times are in microseconds since the
/// epoch.
static RECORD_DESTINATIONS: Sql = Sql {
    text: "
UPDATE app.webhook_destinations d
SET throttle_spent_until = coalesce(timestamptz 'epoch' + s.spent_us * interval '1 microsecond', d.throttle_spent_until),
    line_leases = CASE WHEN s.lease IS NULL THEN d.line_leases
                       ELSE ARRAY(SELECT q.id FROM app.webhook_queue q
                                  WHERE q.id = ANY (d.line_leases) AND q.lease_until IS NOT NULL AND q.id <> s.lease) || s.lease END
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS s (id, spent_us, lease)
WHERE d.id = s.id",
    types: &[Type::INT8_ARRAY, Type::INT8_ARRAY, Type::INT8_ARRAY],
};

/// Stores what the claim has spent of the throttles of applications.
static RECORD_APPLICATIONS: Sql = Sql {
    text: "
UPDATE app.webhook_applications a
SET throttle_spent_until = timestamptz 'epoch' + s.spent_us * interval '1 microsecond'
FROM unnest($1::bigint[], $2::bigint[]) AS s (id, spent_us)
WHERE a.id = s.id",
    types: &[Type::INT8_ARRAY, Type::INT8_ARRAY],
};

/// A throttle and how far it is spent.
#[derive(Clone, Copy)]
pub(super) struct Bucket {
    pub(super) throttle: Throttle,
    pub(super) spent_until: Option<Timestamp>,
}

impl Bucket {
    fn parse(row: &Row, rate: usize, spent: usize) -> Result<Option<Self>, tokio_postgres::Error> {
        let per_second = row.try_get::<_, Option<i32>>(rate)?;
        let throttle = per_second.and_then(|rate| Throttle::new(rate.into()).ok());
        let spent_until = row.try_get::<_, Option<PgTimestamp>>(spent)?.map(|PgTimestamp(at)| at);
        Ok(throttle.map(|throttle| Self { throttle, spent_until }))
    }

    pub(super) fn available(&self, now: Timestamp) -> usize {
        self.throttle.available(self.spent_until, now)
    }

    pub(super) fn spend(&mut self, now: Timestamp, count: usize) {
        self.spent_until = Some(self.throttle.spend(self.spent_until, now, count));
    }

    pub(super) fn spent_micros(&self) -> Option<i64> {
        self.spent_until.map(Timestamp::as_micros)
    }
}

/// A destination that the transaction has locked.
pub(super) struct Locked {
    pub(super) id: DestinationId,
    pub(super) app: ApplicationId,
    pub(super) bucket: Option<Bucket>,
    pub(super) is_fifo: bool,
    pub(super) paused_until: Option<Timestamp>,
    pub(super) head: Option<Head>,
}

/// The head of a line.
pub(super) struct Head {
    pub(super) is_in_flight: bool,
    pub(super) key: Option<EventKey>,
    /// Whether the head waits for its time, unleased.
    is_waiting: bool,
    due: Option<Timestamp>,
    pub(super) is_retry: bool,
    /// The number of leases in a row that the head has lost if its lease has expired.
    lost_leases: Option<u32>,
    /// Whether the line is empty, but the destination has events that were not in it.
    pub(super) has_events_outside: bool,
}

impl Head {
    /// Returns the due time of a head that waits for it.
    pub(super) fn wait_until(&self) -> Option<Timestamp> {
        self.due.filter(|_| self.is_waiting)
    }

    /// Returns whether the head has lost so many leases that it is dead-lettered instead of claimed again.
    pub(super) fn is_abandoned(&self, abandon_after: u32) -> bool {
        let lost = self.lost_leases.filter(|_| !self.is_in_flight);
        lost.is_some_and(|lost| TerminalState::after_lost_leases(lost, abandon_after).is_some())
    }
}

/// Begins the transaction, locks applications and destinations, and reads the heads of lines, in one round trip.
pub(super) async fn lock(
    session: &Session,
    ids: &Vec<i64>,
) -> Result<(Vec<Locked>, BTreeMap<ApplicationId, Bucket>, Timestamp), tokio_postgres::Error> {
    let (applications, destinations, wait_longer, heads) = (
        session.prepare(&LOCK_APPLICATIONS).await?,
        session.prepare(&LOCK_DESTINATIONS).await?,
        session.prepare(&WAIT_LONGER_FOR_LOCKS).await?,
        session.prepare(&HEADS).await?,
    );
    let (begun, applications, destinations, waits_longer, heads) = join5(
        session.begin(&BEGIN_SHORT_LOCK_WAIT),
        session.send(&applications, &[ids]),
        session.send(&destinations, &[ids]),
        session.send(&wait_longer, &[]),
        session.send(&heads, &[ids]),
    )
    .await;
    begun?;
    // In the order of the statements: those after one that fails report only that the transaction is aborted.
    let (applications, destinations, _, heads) = (applications?, destinations?, waits_longer?, heads?);
    let mut buckets = BTreeMap::new();
    for row in applications {
        if let Some(bucket) = Bucket::parse(&row, 1, 2)? {
            buckets.insert(ApplicationId(row.try_get(0)?), bucket);
        }
    }
    let mut head_of: BTreeMap<DestinationId, Head> = BTreeMap::new();
    let mut repaired: Vec<i64> = Vec::new();
    for row in heads {
        let due = row.try_get::<_, Option<PgTimestamp>>(5)?.map(|PgTimestamp(at)| at);
        let head = Head {
            is_in_flight: row.try_get(2)?,
            key: row.try_get::<_, Option<i64>>(3)?.map(EventKey),
            is_waiting: row.try_get::<_, Option<bool>>(4)?.unwrap_or(false),
            due,
            has_events_outside: row.try_get(7)?,
            is_retry: unsigned(row.try_get::<_, Option<i32>>(6)?.unwrap_or(0)) > 0,
            lost_leases: row.try_get::<_, Option<i32>>(8)?.map(|lost| unsigned(lost) + 1),
        };
        if head.has_events_outside {
            repaired.push(row.try_get(0)?);
        }
        head_of.insert(DestinationId(row.try_get(0)?), head);
    }
    if !repaired.is_empty() {
        session.query(&JOIN_LINES, &[&repaired]).await?;
    }
    let mut now = Timestamp::default();
    let mut locked = Vec::new();
    for row in destinations {
        let id = DestinationId(row.try_get(0)?);
        now = row.try_get::<_, PgTimestamp>(6)?.0;
        locked.push(Locked {
            id,
            app: ApplicationId(row.try_get(1)?),
            bucket: Bucket::parse(&row, 2, 3)?,
            is_fifo: row.try_get(4)?,
            paused_until: row.try_get::<_, Option<PgTimestamp>>(5)?.map(|PgTimestamp(until)| until),
            head: head_of.remove(&id),
        });
    }
    Ok((locked, buckets, now))
}

/// Stores what the claim has spent, and commits, in one round trip.
pub(super) async fn commit(
    session: &Session,
    (ids, spent, line_leases): &(Vec<i64>, Vec<Option<i64>>, Vec<Option<i64>>),
    applications: &BTreeMap<ApplicationId, Bucket>,
) -> Result<(), tokio_postgres::Error> {
    let spent_apps = applications.iter().filter_map(|(id, bucket)| Some((id.0, bucket.spent_micros()?)));
    let (app_ids, app_spent): (Vec<i64>, Vec<i64>) = spent_apps.unzip();
    if ids.is_empty() {
        return session.client().batch_execute("COMMIT").await;
    }
    let destinations = session.prepare(&RECORD_DESTINATIONS).await?;
    let params: [Param<'_>; 3] = [ids, spent, line_leases];
    let recorded = session.send(&destinations, &params);
    if app_ids.is_empty() {
        let (recorded, committed) = join(recorded, session.client().batch_execute("COMMIT")).await;
        recorded?;
        return committed;
    }
    let applications = session.prepare(&RECORD_APPLICATIONS).await?;
    let (recorded, spent, committed) = join3(
        recorded,
        session.send(&applications, &[&app_ids, &app_spent]),
        session.client().batch_execute("COMMIT"),
    )
    .await;
    recorded?;
    spent?;
    committed
}
