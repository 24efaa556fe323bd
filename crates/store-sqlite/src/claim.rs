//! Claims: granting leases on due events.
//!
//! The cost of a claim grows with the events it grants, the destinations it has to skip, and the leases currently held.
//! It never grows with the backlog of a destination, the retries that are not due, or the history:
//!
//! - **Expired leases** are searched only in claims whose `expiry_check_at` has passed, a lower bound of their first
//!   expiry. A claim reads the rows of all claims that hold leases; they have no index.
//! - **Retries** are searched only at destinations whose `earliest_retry_at` has passed. This is a lower bound of their
//!   first retry; inserting a retry lowers it, and a claim raises it.
//! - **Deferred events** are searched only at destinations whose `earliest_deferred_at` has passed, a bound of the same kind.
//! - **First attempts** are due as soon as they are stored. A claim finds them by seeking from destination to
//!   destination through `webhook_first_attempts`, which holds nothing else.
//!
//! A claim is maximal: it grants every claimable event unless a limit that applies to the event is used up, or it has passed
//! over [`SKIPPED_MAX`] destinations without slots. In that case it wakes the workers, and the next claim goes on from
//! there: one saturated host with 10,000 destinations must not make each claim search all of them, while other calls wait.
//! No limit gains capacity during a claim. An event whose payload does not fit the byte limits keeps back its destination only, so
//! that large events of one destination do not stop the events of others; after [`REFUSED_MAX`] such events the claim ends.

pub(crate) mod abandon;
pub(crate) mod grant;
pub(crate) mod line;
mod repeat;
mod throttle;

use std::collections::{BTreeMap, BTreeSet};

use posthaste_domain::{DestinationId, DestinationUrl, Lease, Timestamp};
use posthaste_store::{ClaimRequest, ClaimResponse, PayloadBudget, Receiver, SlotBudget};
use rand::rngs::StdRng;
use rusqlite::{Connection, OptionalExtension as _, Row};

use crate::claims::EndedLeases;
use crate::command::WriteContext;
use crate::destination;
use crate::destination_queue::QueueHead;
use crate::error::CallError;
use crate::row;
use grant::ClaimWriter;
use throttle::{Bucket, Throttles};

/// The number of events that do not fit the byte limits after which a claim looks for no others. The next claim starts at
/// other destinations.
const REFUSED_MAX: usize = 1_000;

/// The number of destinations without slots after which a claim searches no further.
const SKIPPED_MAX: usize = 250;

/// The state that rotates claims fairly: the next claim starts at the next destination and with the other kind of
/// attempt. The writer thread keeps it in memory.
#[derive(Debug, Default)]
pub(crate) struct ClaimRotation {
    /// The destination that was last granted a first attempt, or the last one that an unfinished search has passed over.
    last_served: i64,
    /// The destination at which an unfinished search began: the next claim searches up to it.
    search_end: Option<i64>,
    /// Whether the next claim takes first attempts before retries. The order alternates, so that neither kind starves
    /// the other of slots.
    first_attempts_first: bool,
}

/// Grants leases within the limits of the request and dead-letters events that lost too many leases.
pub(crate) fn claim(
    context: &mut WriteContext<'_>,
    request: &ClaimRequest,
) -> Result<ClaimResponse, CallError> {
    let db = context.db;
    context.clock_repair.run(db, context.now)?;
    let resumed = destination::resumed(db, context.now, request.resumed_within)?;
    let updated = destination::updated(db, context.now, request.resumed_within)?;
    let probes = destination::requested_probes(db, context.now, request.resumed_within)?;
    let repeated = repeat::repeat(db, context.now, request)?;
    if !repeated.leases.is_empty() {
        return Ok(ClaimResponse {
            leases: repeated.leases,
            resumed,
            updated,
            probes,
            now: context.now,
            is_limited_by_bytes: repeated.has_released,
            ..ClaimResponse::default()
        });
    }
    let mut ended = EndedLeases::default();
    let expired = abandon::find_expired(db, context.now)?;
    let (abandoned, expired) = abandon::abandon(db, context.now, request.abandon_after, expired, &mut ended)?;

    let mut budget = ClaimBudget::new(db, context.now, request);
    let mut writer = ClaimWriter::prepare(db, request, context.now, context.random)?;
    for lease in expired {
        writer.take_over(&lease, &mut budget, &mut ended)?;
    }
    let rotation = &mut *context.rotation;
    let search = if rotation.first_attempts_first {
        let search = claim_first_attempts(db, rotation, &mut budget, &mut writer)?;
        claim_retries(db, &mut budget, &mut writer)?;
        claim_deferred(db, &mut budget, &mut writer)?;
        search
    } else {
        claim_deferred(db, &mut budget, &mut writer)?;
        claim_retries(db, &mut budget, &mut writer)?;
        claim_first_attempts(db, rotation, &mut budget, &mut writer)?
    };
    *context.has_due_events |= search == SearchResult::Unfinished;
    rotation.first_attempts_first = !rotation.first_attempts_first;
    let leases = writer.finish()?;
    budget.throttles.write(db)?;
    // Claims without leases are deleted last, so that this claim's number differs from theirs.
    ended.write(db)?;
    let is_limited_by_bytes = budget.payloads.refused() > 0;
    let kept_back = budget.into_kept_back();
    Ok(ClaimResponse {
        leases,
        abandoned,
        resumed,
        updated,
        probes,
        now: context.now,
        is_limited_by_bytes,
        kept_back,
    })
}

/// Grants a lease on the event that was enqueued last, which no worker has claimed.
pub(crate) fn claim_last_enqueued(
    db: &Connection,
    now: Timestamp,
    random: &mut StdRng,
    request: &ClaimRequest,
) -> rusqlite::Result<Lease> {
    let destination = "SELECT destination_id FROM webhook_events ORDER BY id DESC LIMIT 1";
    let destination = db.prepare_cached(destination)?.query_row([], |row| row.get(0).map(DestinationId))?;
    let mut budget = ClaimBudget::new(db, now, request);
    let mut writer = ClaimWriter::prepare(db, request, now, random)?;
    let destination = writer.read_destination(destination)?;
    writer.grant_first_attempts(&destination, 1, &mut budget)?;
    writer.finish()?.pop().ok_or(rusqlite::Error::QueryReturnedNoRows)
}

/// A destination with events that a claim may grant.
struct WaitingDestination {
    id: DestinationId,
    url: DestinationUrl,
    is_failing: bool,
    paused_until: Option<Timestamp>,
    /// The application of an endpoint; 0 for a URL.
    app: i64,
    profile_version: i64,
    is_fifo: bool,
    bucket: Option<Bucket>,
    /// As the database has it. The claim may have consumed more.
    head: QueueHead,
}

/// The columns of `webhook_destinations` that [`WaitingDestination::from_row`] reads, in its order.
macro_rules! waiting_columns {
    () => {
        "id, url, failing_since IS NOT NULL, app_id, profile_version, is_fifo, throttle_per_second, throttle_spent_until,
         paused_until, first_attempts_head, first_attempts_consumed"
    };
}
pub(crate) use waiting_columns;

impl WaitingDestination {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: DestinationId(row.get(0)?),
            url: DestinationUrl::from_stored(row.get(1)?),
            is_failing: row.get(2)?,
            app: row.get(3)?,
            profile_version: row.get(4)?,
            is_fifo: row.get(5)?,
            bucket: Bucket::from_row(row, 6)?,
            paused_until: row::optional_timestamp(row, 8)?,
            head: QueueHead { key: row.get(9)?, consumed: row.get(10)? },
        })
    }

    fn receiver(&self) -> Receiver<'_> {
        Receiver { destination: self.id, host: self.url.origin(), is_failing: self.is_failing }
    }
}

/// Destinations that may have a due retry and are not paused. Index: webhook_destinations_earliest_retry_at.
pub(crate) const DUE_DESTINATIONS: &str = concat!(
    "SELECT ",
    waiting_columns!(),
    " FROM webhook_destinations
    WHERE earliest_retry_at <= ?1 AND (paused_until IS NULL OR paused_until <= ?1)
    ORDER BY earliest_retry_at"
);

/// Sets a destination's `earliest_retry_at` to the due time of its first retry. Seeks one row of webhook_retries.
pub(crate) const RAISE_EARLIEST_RETRY_AT: &str = "
    UPDATE webhook_destinations
    SET earliest_retry_at = (SELECT next_attempt_at FROM webhook_retries
                             WHERE destination_id = ?1
                             ORDER BY next_attempt_at LIMIT 1)
    WHERE id = ?1";

/// Grants due retries, starting at the destination whose retry has been due the longest.
fn claim_retries(
    db: &Connection,
    budget: &mut ClaimBudget<'_>,
    writer: &mut ClaimWriter<'_>,
) -> rusqlite::Result<()> {
    if budget.is_exhausted() || budget.slots.retries() == 0 {
        return Ok(());
    }
    let mut due = db.prepare_cached(DUE_DESTINATIONS)?;
    let mut visited = Vec::new();
    let mut rows = due.query([writer.now.as_micros()])?;
    while let Some(row) = rows.next()? {
        let destination = WaitingDestination::from_row(row)?;
        if destination.is_fifo {
            let granted = writer.grant_line_head(&destination, budget)?;
            visited.extend((granted > 0).then_some(destination.id));
        } else if let count @ 1.. = budget.available(&destination, true)? {
            writer.grant_retries(&destination, count, budget)?;
            visited.push(destination.id);
        }
        if budget.is_exhausted() || budget.slots.retries() == 0 {
            break;
        }
    }
    drop(rows);
    // Only after the query has ended, because the update moves rows in the index that the query reads.
    let mut raise = db.prepare_cached(RAISE_EARLIEST_RETRY_AT)?;
    for destination in visited {
        raise.execute([destination.0])?;
    }
    Ok(())
}

/// Destinations that may have a deferred event that is due, and are not paused. Index:
/// webhook_destinations_earliest_deferred_at.
pub(crate) const DUE_DEFERRED_DESTINATIONS: &str = concat!(
    "SELECT ",
    waiting_columns!(),
    " FROM webhook_destinations
    WHERE earliest_deferred_at <= ?1 AND (paused_until IS NULL OR paused_until <= ?1)
    ORDER BY earliest_deferred_at"
);

/// Sets a destination's `earliest_deferred_at` to the due time of its first deferred event. Seeks one row of
/// webhook_deferred.
pub(crate) const RAISE_EARLIEST_DEFERRED_AT: &str = "
    UPDATE webhook_destinations
    SET earliest_deferred_at = (SELECT next_attempt_at FROM webhook_deferred
                                WHERE destination_id = ?1
                                ORDER BY next_attempt_at LIMIT 1)
    WHERE id = ?1";

/// Grants deferred events that are due, starting at the destination whose event has been due the longest.
fn claim_deferred(
    db: &Connection,
    budget: &mut ClaimBudget<'_>,
    writer: &mut ClaimWriter<'_>,
) -> rusqlite::Result<()> {
    if budget.is_exhausted() {
        return Ok(());
    }
    let mut due = db.prepare_cached(DUE_DEFERRED_DESTINATIONS)?;
    let mut visited = Vec::new();
    let mut rows = due.query([writer.now.as_micros()])?;
    while !budget.is_exhausted()
        && let Some(row) = rows.next()?
    {
        let destination = WaitingDestination::from_row(row)?;
        if destination.is_fifo {
            let granted = writer.grant_line_head(&destination, budget)?;
            visited.extend((granted > 0).then_some(destination.id));
        } else if let count @ 1.. = budget.available(&destination, false)? {
            writer.grant_deferred(&destination, count, budget)?;
            visited.push(destination.id);
        }
    }
    drop(rows);
    // Only after the query has ended, because the update moves rows in the index that the query reads.
    for destination in visited {
        db.prepare_cached(RAISE_EARLIEST_DEFERRED_AT)?.execute([destination.0])?;
    }
    Ok(())
}

/// Grants first attempts, an equal share to each destination that has some: first to those that the worker knows to answer,
/// then to all in turn. Destinations with fewer events leave the rest of their share to the others.
///
/// Equal shares are fair to receivers. They are also cheap: events that were enqueued together are on the same pages,
/// and are then claimed together.
fn claim_first_attempts(
    db: &Connection,
    rotation: &mut ClaimRotation,
    budget: &mut ClaimBudget<'_>,
    writer: &mut ClaimWriter<'_>,
) -> rusqlite::Result<SearchResult> {
    if budget.is_exhausted() {
        return Ok(SearchResult::Finished);
    }
    let known = known_destinations(db, budget)?;
    grant_shares(&known, budget.slots.known_share(), budget, writer)?;
    let search_end = rotation.search_end.take().unwrap_or(rotation.last_served);
    let mut skips_left = SKIPPED_MAX;
    let mut is_truncated = true;
    while is_truncated && !budget.is_exhausted() {
        let found = waiting_destinations(db, rotation.last_served, search_end, budget, &mut skips_left)?;
        // Search again if the list was cut off: a queue of nothing but consumed rows is listed and yields no lease.
        is_truncated = found.is_cut_off;
        if let Some(last) = grant_shares(&found.waiting, budget.slots.total(), budget, writer)? {
            rotation.last_served = last.0;
        }
        if skips_left == 0 {
            rotation.last_served = found.last_seen;
            rotation.search_end = Some(search_end);
            return Ok(SearchResult::Unfinished);
        }
    }
    Ok(SearchResult::Finished)
}

/// Whether a claim has searched all destinations with first attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SearchResult {
    Finished,
    /// The claim has passed over many destinations without slots. The next claim goes on.
    Unfinished,
}

/// Grants up to `leases_max` first attempts, an equal share to each destination. Returns the destination that it visited
/// last.
fn grant_shares(
    destinations: &[WaitingDestination],
    leases_max: usize,
    budget: &mut ClaimBudget<'_>,
    writer: &mut ClaimWriter<'_>,
) -> rusqlite::Result<Option<DestinationId>> {
    let mut waiting: Vec<&WaitingDestination> = destinations.iter().collect();
    let mut left = leases_max;
    let mut last_visited = None;
    while left > 0 && !budget.is_exhausted() && !waiting.is_empty() {
        let share = SlotBudget::equal_share(left, waiting.len());
        let mut still_waiting = Vec::new();
        for destination in waiting {
            if destination.is_fifo {
                left -= writer.grant_line_head(destination, budget)?;
                last_visited = Some(destination.id);
                continue;
            }
            let count = budget.available(destination, false)?.min(share).min(left);
            if count == 0 {
                continue;
            }
            let granted = writer.grant_first_attempts(destination, count, budget)?;
            if granted == count {
                still_waiting.push(destination);
            }
            left -= granted;
            last_visited = Some(destination.id);
        }
        waiting = still_waiting;
    }
    Ok(last_visited)
}

/// Seeks the next destination with first attempts; the cost does not depend on how many it has.
pub(crate) const NEXT_DESTINATION: &str = concat!(
    "SELECT ",
    waiting_columns!(),
    " FROM webhook_destinations
    WHERE id = (SELECT destination_id FROM webhook_first_attempts
                WHERE destination_id > ?1 AND destination_id <= ?2
                ORDER BY destination_id LIMIT 1)"
);

/// Returns the destinations that the worker knows to answer, as far as they have first attempts and free slots.
fn known_destinations(
    db: &Connection,
    budget: &mut ClaimBudget<'_>,
) -> rusqlite::Result<Vec<WaitingDestination>> {
    let mut next_after = db.prepare_cached(NEXT_DESTINATION)?;
    let mut waiting = Vec::new();
    for id in budget.slots.known() {
        // One destination for each lease is enough.
        if waiting.len() >= budget.slots.known_share() {
            break;
        }
        let known = next_after.query_row((id.0 - 1, id.0), WaitingDestination::from_row).optional()?;
        if let Some(known) = known
            && budget.available(&known, false)? > 0
        {
            waiting.push(known);
        }
    }
    Ok(waiting)
}

/// Destinations with first attempts that a search has found.
struct FoundDestinations {
    waiting: Vec<WaitingDestination>,
    /// The last destination that the search has read.
    last_seen: i64,
    /// Whether there may be more, for leases that the found ones do not need.
    is_cut_off: bool,
}

/// Finds destinations with first attempts that the budget allows, in cyclic order after `last_served` up to `end`. Stops when
/// there is one destination for each lease that may still be granted, or when no skips are left. Lists no more destinations
/// of a host than the host has slots.
fn waiting_destinations(
    db: &Connection,
    last_served: i64,
    end: i64,
    budget: &mut ClaimBudget<'_>,
    skips_left: &mut usize,
) -> rusqlite::Result<FoundDestinations> {
    let mut next_after = db.prepare_cached(NEXT_DESTINATION)?;
    let mut found = FoundDestinations { waiting: Vec::new(), last_seen: last_served, is_cut_off: false };
    let mut listed: BTreeMap<String, usize> = BTreeMap::new();
    let ranges = match last_served < end {
        true => vec![(last_served, end)],
        false => vec![(last_served, i64::MAX), (i64::MIN, end)],
    };
    for (after, end) in ranges {
        found.last_seen = after;
        loop {
            if found.waiting.len() >= budget.slots.total() || *skips_left == 0 {
                found.is_cut_off = true;
                return Ok(found);
            }
            let next =
                next_after.query_row((found.last_seen, end), WaitingDestination::from_row).optional()?;
            let Some(next) = next else { break };
            found.last_seen = next.id.0;
            if budget.available(&next, false)? == 0 {
                *skips_left -= 1;
                continue;
            }
            let receiver = next.receiver();
            let listed = listed.entry(receiver.host.to_owned()).or_default();
            if *listed >= budget.slots.available_at_host(receiver) {
                *skips_left -= 1;
                found.is_cut_off = true;
                continue;
            }
            *listed += 1;
            found.waiting.push(next);
        }
    }
    Ok(found)
}

/// What a claim may still grant.
struct ClaimBudget<'a> {
    db: &'a Connection,
    now: Timestamp,
    slots: SlotBudget,
    throttles: Throttles,
    /// Endpoints in FIFO order of which the claim grants no further event.
    closed_lines: BTreeSet<DestinationId>,
    payloads: PayloadBudget,
    /// Destinations whose next event does not fit the byte limits.
    kept_back: BTreeSet<DestinationId>,
}

impl<'a> ClaimBudget<'a> {
    fn new(db: &'a Connection, now: Timestamp, request: &ClaimRequest) -> Self {
        Self {
            db,
            now,
            throttles: Throttles::default(),
            closed_lines: BTreeSet::new(),
            slots: SlotBudget::new(request),
            payloads: PayloadBudget::new(request),
            kept_back: BTreeSet::new(),
        }
    }

    fn is_exhausted(&self) -> bool {
        self.slots.total() == 0 || self.payloads.refused() >= REFUSED_MAX
    }

    /// Returns the destinations whose next event did not fit the byte limits. Returns none if the claim ended before it had
    /// looked at all destinations.
    fn into_kept_back(self) -> Vec<DestinationId> {
        if self.payloads.refused() >= REFUSED_MAX {
            return Vec::new();
        }
        self.kept_back.into_iter().collect()
    }

    /// Returns how many more events of a destination may be granted, of retries or of first attempts.
    fn available(&mut self, destination: &WaitingDestination, is_retry: bool) -> rusqlite::Result<usize> {
        let id = destination.id;
        let is_closed = destination.is_fifo && self.closed_lines.contains(&id);
        let is_paused = destination.paused_until.is_some_and(|until| until > self.now);
        if is_closed || is_paused || self.kept_back.contains(&id) {
            return Ok(0);
        }
        let slots = self.slots.available(destination.receiver(), is_retry);
        let available = slots.min(self.throttles.available(self.db, self.now, destination)?);
        Ok(if destination.is_fifo { available.min(1) } else { available })
    }

    /// Counts an event and returns true if its payload fits. Otherwise keeps its destination back.
    fn spend(&mut self, destination: &WaitingDestination, is_retry: bool, payload_bytes: usize) -> bool {
        if !self.payloads.take(payload_bytes) {
            self.kept_back.insert(destination.id);
            return false;
        }
        self.slots.take(destination.receiver(), 1, is_retry);
        self.throttles.take(self.now, destination);
        true
    }
}
