//! Reads for operators. No query reads a payload, and no listing costs more as the history grows. A page is one
//! statement: it joins the index that orders the page with the view of events.

use std::time::Duration;

use posthaste_domain::{
    DeliveryStatus, ErrorClass, EventId, EventKey, Excerpt, FailureKind, LeaseToken, Timestamp, Trigger,
    WorkerId,
};
use posthaste_store::{
    AttemptView, AuditView, DeadLetterFilter, EventDetail, EventQuery, EventView, Overview, Page, PageCursor,
    PageRequest, StoreError,
};
use rusqlite::{Connection, OptionalExtension as _, Row};

use crate::claims;
use crate::destination_view;
use crate::error::CallError;
use crate::row::{self, event_columns};

/// Counts events by state; `pending_ready` does not include events whose leases have expired, which the caller adds.
/// First attempts are due unless they are leased or deferred; due retries and due deferred events are counted. The cost grows
/// with the claims that hold leases and the events that are counted.
///
/// Indexes: webhook_destinations_earliest_retry_at, webhook_destinations_earliest_deferred_at. The oldest pending event has the lowest key.
pub(crate) const OVERVIEW: &str = "
    SELECT
        pending,
        pending - retrying - deferred
            - (SELECT coalesce(sum(first_attempt_leases), 0) FROM webhook_claims)
            + (SELECT count(*)
               FROM webhook_destinations d INDEXED BY webhook_destinations_earliest_retry_at
               CROSS JOIN webhook_retries r
               WHERE d.earliest_retry_at <= ?1 AND r.destination_id = d.id AND r.next_attempt_at <= ?1)
            + (SELECT count(*)
               FROM webhook_destinations d INDEXED BY webhook_destinations_earliest_deferred_at
               CROSS JOIN webhook_deferred r
               WHERE d.earliest_deferred_at <= ?1 AND r.destination_id = d.id AND r.next_attempt_at <= ?1),
        retrying,
        failed,
        cancelled,
        delivered,
        (SELECT created_at FROM webhook_events WHERE id = (SELECT min(id) FROM webhook_queue))
    FROM webhook_totals
    WHERE id = 1";

pub(crate) fn overview(db: &Connection, now: Timestamp) -> Result<Overview, CallError> {
    let held = destination_view::count_held(db, now)?;
    let mut overview = db.prepare_cached(OVERVIEW)?.query_row([now.as_micros()], |row| {
        Ok(Overview {
            pending: row::unsigned(row, 0)?,
            pending_ready: row::unsigned(row, 1)?,
            retrying: row::unsigned(row, 2)?,
            failed: row::unsigned(row, 3)?,
            cancelled: row::unsigned(row, 4)?,
            delivered: row::unsigned(row, 5)?,
            held,
            oldest_pending_age: row::optional_timestamp(row, 6)?.map(|created_at| now.since(created_at)),
        })
    })?;
    overview.pending_ready += count_expired_leases(db, now)?;
    Ok(overview)
}

/// Counts the expired leases that no claim has taken over.
fn count_expired_leases(db: &Connection, now: Timestamp) -> rusqlite::Result<u64> {
    let mut is_expired = db.prepare_cached(
        "SELECT 1 FROM webhook_queue WHERE id = ?1 AND lease_claim = ?2 AND lease_until <= ?3",
    )?;
    let mut expired = 0;
    for claim in claims::due_for_expiry_check(db, now)? {
        for key in claims::granted_events(db, claim)? {
            expired += u64::from(is_expired.exists((key.0, claim.0, now.as_micros()))?);
        }
    }
    Ok(expired)
}

/// Lists the failed events after a cursor, latest change first.
///
/// Index: webhook_failures_updated_at, backwards from the cursor's timestamp. The query skips the rows of the cursor's own
/// microsecond, and rows that the filter leaves out: an index by kind would serve only lists of a few among many.
pub(crate) const DEAD_LETTERS: &str = concat!(
    "SELECT ",
    event_columns!(),
    " FROM webhook_failures l INDEXED BY webhook_failures_updated_at
      CROSS JOIN webhook_outbox_events v
      WHERE (l.updated_at, l.id) < (?1, ?2) AND v.id = l.id
        AND (?4 IS NULL OR l.failure_kind = ?4) AND l.failure_kind IS NOT ?5
      ORDER BY l.updated_at DESC, l.id DESC LIMIT ?3"
);

pub(crate) fn dead_letters(
    db: &Connection,
    filter: DeadLetterFilter,
    page: &PageRequest,
) -> Result<Page<EventView>, CallError> {
    let (at, key, limit) = page_bounds(page);
    let (only, omitted) = (filter.only().map(FailureKind::as_str), filter.omitted().map(FailureKind::as_str));
    let mut failed = db.prepare_cached(DEAD_LETTERS)?;
    let events = failed.query_map((at, key, limit, only, omitted), row::event_view)?;
    to_page(events.collect::<Result<_, _>>()?, page, |event| event.updated_at)
}

pub(crate) fn events(
    db: &Connection,
    query: &EventQuery,
    page: &PageRequest,
) -> Result<Page<EventView>, CallError> {
    let (_, key, limit) = page_bounds(page);
    let mut listed = db.prepare_cached(&listing_sql(query))?;
    let events = match (&query.destination, query.endpoint) {
        // No event has both.
        (Some(_), Some(_)) => return Ok(Page { items: Vec::new(), next: None }),
        (Some(url), None) => listed.query_map((key, limit, url.as_str()), row::event_view)?,
        (None, Some(endpoint)) => listed.query_map((key, limit, endpoint.0.0), row::event_view)?,
        (None, None) => listed.query_map((key, limit), row::event_view)?,
    };
    to_page(events.collect::<Result<_, _>>()?, page, |event| event.created_at)
}

/// Builds the query for one page of events, newest first. The cost of a page never grows with the number of delivered
/// events. The query may have to skip the backlog: pending and failed events that are newer than the delivered ones it
/// lists, or pending events of other destinations.
///
/// The newest event has the highest key. Indexes: webhook_events_destination, webhook_failures_destination; both contain
/// the key as their last column.
pub(crate) fn listing_sql(query: &EventQuery) -> String {
    let by_destination = query.destination.is_some() || query.endpoint.is_some();
    let from = match (query.status, by_destination) {
        (None | Some(DeliveryStatus::Delivered), false) => "webhook_events l",
        (None | Some(DeliveryStatus::Delivered), true) => {
            "webhook_events l INDEXED BY webhook_events_destination"
        }
        (Some(DeliveryStatus::Pending), _) => "webhook_queue l",
        (Some(DeliveryStatus::Failed), false) => "webhook_failures l",
        (Some(DeliveryStatus::Failed), true) => "webhook_failures l INDEXED BY webhook_failures_destination",
    };
    let delivered = "AND NOT EXISTS (SELECT 1 FROM webhook_queue q WHERE q.id = l.id)
                     AND NOT EXISTS (SELECT 1 FROM webhook_failures f WHERE f.id = l.id)";
    // Index: webhook_destinations_url.
    let destination = match query.endpoint {
        None => {
            "AND l.destination_id = (SELECT id FROM webhook_destinations WHERE kind = 'url' AND url = ?3)"
        }
        Some(_) => {
            "AND l.destination_id = (SELECT id FROM webhook_destinations WHERE kind = 'endpoint' AND id = ?3)"
        }
    };
    format!(
        "SELECT {} FROM {from} CROSS JOIN webhook_outbox_events v
         WHERE l.id < ?1 AND v.id = l.id {} {}
         ORDER BY l.id DESC LIMIT ?2",
        event_columns!(),
        if query.status == Some(DeliveryStatus::Delivered) { delivered } else { "" },
        if by_destination { destination } else { "" },
    )
}

/// Returns the timestamp and key that the page starts after, and the number of rows to read: one more than the page
/// holds.
fn page_bounds(page: &PageRequest) -> (i64, i64, i64) {
    let (at, key) = page.after.map_or((i64::MAX, i64::MAX), |after| (after.at.as_micros(), after.key.0));
    (at, key, i64::try_from(page.limit.get()).expect("page limits are at most a few hundred") + 1)
}

/// Makes a page of the events that its query returned. An event beyond the page's limit means that there is a next page.
fn to_page(
    mut events: Vec<EventView>,
    page: &PageRequest,
    at: impl Fn(&EventView) -> Timestamp,
) -> Result<Page<EventView>, CallError> {
    let more = events.len() > page.limit.get();
    events.truncate(page.limit.get());
    let next = events.last().filter(|_| more).map(|last| PageCursor { at: at(last), key: last.key });
    Ok(Page { items: events, next })
}

/// Reads one event with its attempts and operator actions.
pub(crate) fn event(db: &Connection, event_id: &EventId) -> Result<EventDetail, CallError> {
    // Index: webhook_events_event_id.
    let found = db
        .prepare_cached(concat!(
            "SELECT ",
            event_columns!(),
            " FROM webhook_outbox_events v WHERE v.event_id = ?1"
        ))?
        .query_row([event_id.as_str()], row::event_view)
        .optional()?;
    let Some(event) = found else {
        return Err(explain_missing(db, event_id)?.into());
    };
    let history = read_attempts(db, event.key)?;
    let audit = read_audit(db, event.key)?;
    Ok(EventDetail { event, history, audit })
}

/// Returns the error for an event that does not exist: an operator discarded it, or its id is unknown.
pub(crate) fn explain_missing(db: &Connection, event_id: &EventId) -> rusqlite::Result<StoreError> {
    // Index: webhook_discarded_events_event_id. The discard is the last action on its event.
    let key = db
        .prepare_cached("SELECT id FROM webhook_discarded_events WHERE event_id = ?1")?
        .query_row([event_id.as_str()], |row| row.get(0).map(EventKey))
        .optional()?;
    let audit = match key {
        Some(key) => read_audit(db, key)?,
        None => Vec::new(),
    };
    let event_id = event_id.clone();
    Ok(match audit.into_iter().next_back() {
        Some(discard) => StoreError::EventDiscarded { event_id, discard },
        None => StoreError::EventNotFound { event_id },
    })
}

/// The columns of `webhook_attempts a` that [`attempt_view`] reads, in its order.
macro_rules! attempt_columns {
    () => {
        "a.lease_token, a.attempt, a.trigger, a.started_at, a.duration_us, a.http_status, a.error_class, a.excerpt,
         a.worker_id, a.applied"
    };
}
pub(crate) use attempt_columns;

pub(crate) fn attempt_view(row: &Row<'_>) -> rusqlite::Result<AttemptView> {
    Ok(AttemptView {
        token: LeaseToken::from_uuid(row::uuid(row, 0)?),
        attempt: row.get(1)?,
        trigger: row::decode(row, 2, Trigger::from_name)?,
        started_at: row::timestamp(row, 3)?,
        duration: Duration::from_micros(row::unsigned(row, 4)?),
        http_status: row.get(5)?,
        error_class: row::decode_optional(row, 6, ErrorClass::from_name)?,
        excerpt: Excerpt::from_stored(row.get(7)?),
        worker: WorkerId::from_stored(row.get(8)?),
        applied: row.get(9)?,
    })
}

fn read_attempts(db: &Connection, key: EventKey) -> rusqlite::Result<Vec<AttemptView>> {
    let mut attempts = db.prepare_cached(concat!(
        "SELECT ",
        attempt_columns!(),
        " FROM webhook_attempts a WHERE a.event_key = ?1 ORDER BY a.position"
    ))?;
    let rows = attempts.query_map([key.0], attempt_view)?;
    rows.collect()
}

fn read_audit(db: &Connection, key: EventKey) -> rusqlite::Result<Vec<AuditView>> {
    // Index: webhook_audit_event.
    let mut audit = db.prepare_cached(
        "SELECT action, actor, at, reason FROM webhook_audit WHERE event_key = ?1 ORDER BY id",
    )?;
    let rows = audit.query_map([key.0], row::audit)?;
    rows.collect()
}
