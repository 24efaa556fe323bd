//! Claims of destinations that are throttled or in FIFO order.
//!
//! Their leases are granted in a transaction that first locks the applications and the destinations, in the order of their ids. So
//! workers grant the events of such a destination one after the other: the tokens of a throttle are spent once, and of a line in
//! FIFO order at most one event is leased. Claims of all other destinations lock no destination.
//!
//! The head of a line is its leased event if there is one, or else its pending event with the smallest key. Each lease on an event
//! of a line is recorded in `line_leases` of its destination, so that the head is found by key.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::{join, join3, join4};
use posthaste_claimable::{ClaimBudget, ClaimableIndex, RangeClaim, RangeResult};
use posthaste_domain::{ApplicationId, DestinationId, EventKey, Lease, Throttle, Timestamp};
use posthaste_store::{ClaimRequest, SlotBudget};
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::grant::{Grant, GrantRow, Param, parse_rows, reschedule_lost_claims};
use super::grant_sql::GRANT_LIMITED;
use crate::StoreState;
use crate::convert::{PgTimestamp, unsigned};
use crate::session::{BEGIN, Session, Sql};

/// How long a worker skips a line at most before it reads the head again. Another worker may have settled the head meanwhile.
const LINE_PAUSE_MAX: Duration = Duration::from_secs(1);

/// Locks the throttled applications of destinations. Uses indexes webhook_destinations_id and webhook_applications_id.
static LOCK_APPLICATIONS: Sql = Sql {
    text: "
SELECT a.id, a.throttle_per_second, a.throttle_spent_until
FROM app.webhook_applications a
WHERE a.id = ANY (ARRAY(SELECT d.app_id FROM app.webhook_destinations d WHERE d.id = ANY ($1)))
      AND a.throttle_per_second IS NOT NULL
ORDER BY a.id
FOR UPDATE",
    types: &[Type::INT8_ARRAY],
};

/// Locks destinations. Uses index webhook_destinations_id.
static LOCK_DESTINATIONS: Sql = Sql {
    text: "
SELECT d.id, d.app_id, d.throttle_per_second, d.throttle_spent_until, coalesce(d.is_fifo, false),
       CASE WHEN d.paused_until > app.webhook_now()
            THEN least(d.paused_until, app.webhook_now() + interval '5 seconds') END,
       app.webhook_now()
FROM app.webhook_destinations d
WHERE d.id = ANY ($1)
ORDER BY d.id
FOR UPDATE",
    types: &[Type::INT8_ARRAY],
};

/// Reads the heads of the lines among the locked destinations: the leases that the line has, whether one of them is live, the first
/// expired one, and the first pending event. Uses indexes webhook_queue_id and webhook_queue_line.
static HEADS: Sql = Sql {
    text: "
SELECT d.id, l.keys, coalesce(l.is_live, false) OR coalesce(h.lease_until > app.webhook_now(), false),
       coalesce(l.expired, h.id),
       l.expired IS NULL AND h.lease_until IS NULL AND h.next_attempt_at > app.webhook_now(),
       h.next_attempt_at, coalesce(l.attempts, h.attempts)
FROM app.webhook_destinations d
CROSS JOIN LATERAL (
    SELECT array_agg(q.id) AS keys, bool_or(q.lease_until > app.webhook_now()) AS is_live, min(q.id) AS expired,
           (array_agg(q.attempts ORDER BY q.id))[1] AS attempts
    FROM unnest(d.line_leases) AS k (key)
    JOIN app.webhook_queue q ON q.id = k.key
    WHERE q.lease_until IS NOT NULL
) l
LEFT JOIN LATERAL (
    SELECT q.id, q.next_attempt_at, q.attempts, q.lease_until
    FROM app.webhook_queue q
    WHERE q.destination_id = d.id AND q.is_fifo
    ORDER BY q.id
    LIMIT 1
) h ON true
WHERE d.id = ANY ($1) AND d.is_fifo",
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

/// The rows of a plan whose destinations are throttled or in FIFO order.
#[derive(Default)]
pub(super) struct LimitedClaims(BTreeMap<DestinationId, PlannedRows>);

/// The rows of one destination in a plan.
#[derive(Default)]
struct PlannedRows {
    ranges: Vec<RangeClaim>,
    takeovers: Vec<EventKey>,
}

impl LimitedClaims {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn add_range(&mut self, destination: DestinationId, range: RangeClaim) {
        self.0.entry(destination).or_default().ranges.push(range);
    }

    pub(super) fn add_takeover(&mut self, destination: DestinationId, key: EventKey) {
        self.0.entry(destination).or_default().takeovers.push(key);
    }
}

/// A throttle and how far it is spent.
#[derive(Clone, Copy)]
struct Bucket {
    throttle: Throttle,
    spent_until: Option<Timestamp>,
}

impl Bucket {
    fn parse(row: &Row, rate: usize, spent: usize) -> Result<Option<Self>, tokio_postgres::Error> {
        let per_second = row.try_get::<_, Option<i32>>(rate)?;
        let throttle = per_second.and_then(|rate| Throttle::new(rate.into()).ok());
        let spent_until = row.try_get::<_, Option<PgTimestamp>>(spent)?.map(|PgTimestamp(at)| at);
        Ok(throttle.map(|throttle| Self { throttle, spent_until }))
    }

    fn available(&self, now: Timestamp) -> usize {
        self.throttle.available(self.spent_until, now)
    }

    fn spend(&mut self, now: Timestamp, count: usize) {
        self.spent_until = Some(self.throttle.spend(self.spent_until, now, count));
    }

    fn spent_micros(&self) -> Option<i64> {
        self.spent_until.map(Timestamp::as_micros)
    }
}

/// A destination that the transaction has locked.
struct Locked {
    id: DestinationId,
    app: ApplicationId,
    bucket: Option<Bucket>,
    is_fifo: bool,
    paused_until: Option<Timestamp>,
    head: Option<Head>,
}

/// The head of a line.
struct Head {
    is_in_flight: bool,
    key: Option<EventKey>,
    /// Whether the head waits for its time, unleased.
    is_waiting: bool,
    due: Option<Timestamp>,
    is_retry: bool,
}

/// One request of the statement that grants: within a range, or by key.
enum Requested {
    Range(RangeClaim),
    Key(DestinationId, EventKey),
}

impl Requested {
    fn destination(&self) -> DestinationId {
        match self {
            Self::Range(claim) => claim.destination,
            Self::Key(destination, _) => *destination,
        }
    }
}

/// Grants leases on events of destinations that are throttled or in FIFO order, in one transaction. Adds them to `leases` and
/// deducts them from the budget. The claim requests nothing more of these destinations.
pub(super) async fn grant(
    session: &Session,
    store: &StoreState,
    claimable: &mut ClaimableIndex,
    request: &ClaimRequest,
    claims: &LimitedClaims,
    budget: &mut ClaimBudget,
    leases: &mut Vec<Lease>,
) -> Result<(), tokio_postgres::Error> {
    let ids: Vec<i64> = claims.0.keys().map(|id| id.0).collect();
    let (mut destinations, mut applications, now) = lock(session, &ids).await?;
    let mut tokens = Tokens { applications: &applications, left: BTreeMap::new(), now };
    let mut requested = Vec::new();
    // The first destination may get the last token of its application, so each claim begins with another one.
    let offset = usize::try_from(now.as_micros().unsigned_abs()).unwrap_or(0) % destinations.len().max(1);
    destinations.rotate_left(offset);
    for (index, destination) in destinations.iter().enumerate() {
        let sharing = destinations[index..].iter().filter(|it| it.app == destination.app).count();
        let planned = &claims.0[&destination.id];
        if destination.paused_until.is_some_and(|until| until > now) {
            continue;
        }
        let available = tokens.available(destination, sharing);
        let taken = match &destination.head {
            Some(head) => request_head(head, destination, claimable, budget, available, &mut requested),
            None => request_rows(planned, destination.id, available, &mut requested),
        };
        tokens.take(destination, taken);
    }

    let outcome = grant_requested(session, claimable, request, &requested, budget, leases).await?;
    let mut spent_destinations = (Vec::new(), Vec::new(), Vec::new());
    for destination in &mut destinations {
        let keys = outcome.granted.get(&destination.id);
        let count = keys.map_or(0, Vec::len);
        if let (Some(bucket), 1..) = (&mut destination.bucket, count) {
            bucket.spend(now, count);
        }
        if let (Some(bucket), 1..) = (applications.get_mut(&destination.app), count) {
            bucket.spend(now, count);
        }
        if count > 0 {
            spent_destinations.0.push(destination.id.0);
            spent_destinations.1.push(destination.bucket.and_then(|bucket| bucket.spent_micros()));
            let lease = keys.and_then(|keys| keys.first()).filter(|_| destination.is_fifo);
            spent_destinations.2.push(lease.map(|key| key.0));
        }
    }
    commit(session, &spent_destinations, &applications).await?;
    reschedule_lost_claims(session, &outcome.lost_claims).await?;

    let mut next: Option<Timestamp> = None;
    for destination in &destinations {
        let planned = &claims.0[&destination.id];
        let until = block_until(destination, &applications, &outcome, now);
        match until {
            Some(until) => {
                claimable.record_pause(destination.id, until);
                store.blocked.block(destination.id);
                next = Some(next.map_or(until, |next| next.min(until)));
            }
            // The line is empty.
            None if destination.head.as_ref().is_some_and(|head| head.key.is_none()) => {
                for claim in &planned.ranges {
                    claimable.record_claimed(claim, &RangeResult::default());
                }
            }
            None => {}
        }
        budget.complete(destination.id);
    }
    // A destination that does not exist any more has no rows.
    for (id, planned) in claims.0.iter().filter(|(id, _)| destinations.iter().all(|it| it.id != **id)) {
        for claim in &planned.ranges {
            claimable.record_claimed(claim, &RangeResult::default());
        }
        for key in &planned.takeovers {
            claimable.expired.remove(key);
        }
        budget.complete(*id);
    }
    if let Some(next) = next {
        store.blocked.wake_in(next.since(now), &store.waker);
    }
    Ok(())
}

/// Begins the transaction, locks applications and destinations, and reads the heads of lines, in one round trip.
async fn lock(
    session: &Session,
    ids: &Vec<i64>,
) -> Result<(Vec<Locked>, BTreeMap<ApplicationId, Bucket>, Timestamp), tokio_postgres::Error> {
    let (applications, destinations, heads) = (
        session.prepare(&LOCK_APPLICATIONS).await?,
        session.prepare(&LOCK_DESTINATIONS).await?,
        session.prepare(&HEADS).await?,
    );
    let (begun, applications, destinations, heads) = join4(
        session.begin(&BEGIN),
        session.send(&applications, &[ids]),
        session.send(&destinations, &[ids]),
        session.send(&heads, &[ids]),
    )
    .await;
    begun?;
    let mut buckets = BTreeMap::new();
    for row in applications? {
        if let Some(bucket) = Bucket::parse(&row, 1, 2)? {
            buckets.insert(ApplicationId(row.try_get(0)?), bucket);
        }
    }
    let mut head_of: BTreeMap<DestinationId, Head> = BTreeMap::new();
    for row in heads? {
        let due = row.try_get::<_, Option<PgTimestamp>>(5)?.map(|PgTimestamp(at)| at);
        let head = Head {
            is_in_flight: row.try_get(2)?,
            key: row.try_get::<_, Option<i64>>(3)?.map(EventKey),
            is_waiting: row.try_get::<_, Option<bool>>(4)?.unwrap_or(false),
            due,
            is_retry: unsigned(row.try_get::<_, Option<i32>>(6)?.unwrap_or(0)) > 0,
        };
        head_of.insert(DestinationId(row.try_get(0)?), head);
    }
    let mut now = Timestamp::default();
    let mut locked = Vec::new();
    for row in destinations? {
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

/// The tokens that the claim may still spend.
struct Tokens<'a> {
    applications: &'a BTreeMap<ApplicationId, Bucket>,
    left: BTreeMap<ApplicationId, usize>,
    now: Timestamp,
}

impl Tokens<'_> {
    /// Returns how many events of a destination the throttles allow. `sharing` destinations share what is left of the application.
    fn available(&mut self, destination: &Locked, sharing: usize) -> usize {
        let own = destination.bucket.map_or(usize::MAX, |bucket| bucket.available(self.now));
        let of_app = self.applications.get(&destination.app).map_or(usize::MAX, |bucket| {
            let left = *self.left.entry(destination.app).or_insert_with(|| bucket.available(self.now));
            if left == 0 { 0 } else { SlotBudget::equal_share(left, sharing) }
        });
        own.min(of_app)
    }

    fn take(&mut self, destination: &Locked, count: usize) {
        if let Some(left) = self.left.get_mut(&destination.app) {
            *left = left.saturating_sub(count);
        }
    }
}

/// Requests the head of a line, if it can be sent now. Returns how many events it requested.
fn request_head(
    head: &Head,
    destination: &Locked,
    claimable: &ClaimableIndex,
    budget: &ClaimBudget,
    available: usize,
    requested: &mut Vec<Requested>,
) -> usize {
    let has_slot = budget.available(&claimable.receivers, destination.id, head.is_retry) > 0;
    match head.key {
        Some(key) if available > 0 && has_slot && !head.is_in_flight && head.wait_until().is_none() => {
            requested.push(Requested::Key(destination.id, key));
            1
        }
        _ => 0,
    }
}

impl Head {
    /// Returns the due time of a head that waits for it.
    fn wait_until(&self) -> Option<Timestamp> {
        self.due.filter(|_| self.is_waiting)
    }
}

/// Requests the planned rows of a destination, expired leases first. Returns how many events it requested.
fn request_rows(
    planned: &PlannedRows,
    destination: DestinationId,
    available: usize,
    requested: &mut Vec<Requested>,
) -> usize {
    let mut left = available;
    for key in planned.takeovers.iter().take(available) {
        requested.push(Requested::Key(destination, *key));
        left -= 1;
    }
    for claim in &planned.ranges {
        let limit = claim.limit.min(left);
        if limit > 0 {
            requested.push(Requested::Range(RangeClaim { limit, ..*claim }));
            left -= limit;
        }
    }
    available - left
}

/// What the statement granted.
#[derive(Default)]
struct Outcome {
    granted: BTreeMap<DestinationId, Vec<EventKey>>,
    lost_claims: Vec<Uuid>,
}

/// Runs the statement that grants, and updates the budget and the index as for other destinations.
async fn grant_requested(
    session: &Session,
    claimable: &mut ClaimableIndex,
    request: &ClaimRequest,
    requested: &[Requested],
    budget: &mut ClaimBudget,
    leases: &mut Vec<Lease>,
) -> Result<Outcome, tokio_postgres::Error> {
    let mut outcome = Outcome::default();
    if requested.is_empty() {
        return Ok(outcome);
    }
    let range = |requested: &Requested, field: fn(&RangeClaim) -> i64| match requested {
        Requested::Range(claim) => field(claim),
        Requested::Key(..) => 0,
    };
    let destinations: Vec<i64> = requested.iter().map(|it| it.destination().0).collect();
    let lows: Vec<i64> = requested.iter().map(|it| range(it, |claim| claim.range.low)).collect();
    let highs: Vec<i64> = requested.iter().map(|it| range(it, |claim| claim.range.high)).collect();
    let limits: Vec<i64> = requested
        .iter()
        .map(|it| range(it, |claim| i64::try_from(claim.limit).unwrap_or(i64::MAX)))
        .collect();
    let keys: Vec<Option<i64>> = requested
        .iter()
        .map(|it| match it {
            Requested::Key(_, key) => Some(key.0),
            Requested::Range(_) => None,
        })
        .collect();
    let grant = Grant::new(request, budget.payloads());
    let params: [Param<'_>; 5] = [&destinations, &lows, &highs, &limits, &keys];
    let rows = session.query(&GRANT_LIMITED, &[&grant.params()[..], &[&true], &params].concat()).await?;
    let mut results = vec![RangeResult::default(); requested.len()];
    let mut kept = vec![false; requested.len()];
    for (index, row) in parse_rows(grant.id, &rows)? {
        let destination = requested[index].destination();
        match row {
            GrantRow::Granted { position, lease, lost_claim } => {
                budget.take_lease(&claimable.receivers, &lease);
                outcome.granted.entry(destination).or_default().push(lease.key);
                outcome.lost_claims.extend(lost_claim);
                leases.push(lease);
                results[index].granted += 1;
                results[index].granted_to = results[index].granted_to.max(Some(position));
            }
            GrantRow::Ungranted(rows) => {
                if rows.first_left.is_some() {
                    budget.keep_back(destination);
                    kept[index] = true;
                }
                results[index].remainder = Some(rows);
            }
            GrantRow::Paused { .. } | GrantRow::Limited { .. } => {}
        }
    }
    for ((requested, result), is_kept) in requested.iter().zip(results).zip(kept) {
        match requested {
            Requested::Range(claim) => {
                if let Some(locked) = claimable.record_claimed(claim, &result) {
                    budget.skip_locked(locked);
                }
            }
            // Granted, or renewed or taken over meanwhile.
            Requested::Key(_, key) if !is_kept => drop(claimable.expired.remove(key)),
            Requested::Key(..) => {}
        }
    }
    Ok(outcome)
}

/// Stores what the claim has spent, and commits, in one round trip.
async fn commit(
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

/// Returns until when this process skips a destination. `None` if it may claim more of it at once, or if its line is empty.
fn block_until(
    destination: &Locked,
    applications: &BTreeMap<ApplicationId, Bucket>,
    outcome: &Outcome,
    now: Timestamp,
) -> Option<Timestamp> {
    let paused_until = destination.paused_until.filter(|until| *until > now);
    let buckets = destination.bucket.iter().chain(applications.get(&destination.app));
    let without_token = buckets
        .map(|bucket| bucket.throttle.next_at(bucket.spent_until, now))
        .filter(|next_at| *next_at > now)
        .max();
    let in_line = destination.head.as_ref().and_then(|head| {
        let is_blocked =
            head.is_in_flight || head.wait_until().is_some() || outcome.granted.contains_key(&destination.id);
        let latest = now.after(LINE_PAUSE_MAX);
        is_blocked
            .then(|| head.wait_until().filter(|_| !head.is_in_flight).map_or(latest, |due| due.min(latest)))
    });
    paused_until.into_iter().chain(without_token).chain(in_line).max()
}
