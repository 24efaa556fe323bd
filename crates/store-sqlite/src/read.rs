//! What operators read. Nothing here reads a payload, and no list costs what the history holds.

use std::time::Duration;

use posthaste_domain::{
    DeliveryStatus, ErrorClass, EventId, EventKey, Excerpt, LeaseToken, Timestamp, Trigger, WorkerId,
};
use posthaste_store::{
    AttemptView, AuditView, Cursor, EventDetail, EventQuery, EventView, ManualAction, Overview, Page,
    PageRequest, StoreError,
};
use rusqlite::{Connection, OptionalExtension as _, Row};

use crate::claims;
use crate::fault::Fault;
use crate::row::{self, event_columns};

/// Ready without what has expired: first attempts are due unless they are leased, retries are counted where they are
/// due. The cost is that of the claims that hold leases and of the retries that are due.
///
/// Index: webhook_destinations_retries. The oldest event that is pending has the lowest key.
pub(crate) const OVERVIEW: &str = "
    SELECT
        pending,
        pending - retrying
            - (SELECT coalesce(sum(first_attempts), 0) FROM webhook_claims)
            + (SELECT count(*)
               FROM webhook_destinations d INDEXED BY webhook_destinations_retries
               CROSS JOIN webhook_retries r
               WHERE d.retry_at <= ?1 AND r.destination_id = d.id AND r.next_attempt_at <= ?1),
        retrying,
        failed,
        delivered,
        (SELECT created_at FROM webhook_events WHERE id = (SELECT min(id) FROM webhook_queue))
    FROM webhook_totals
    WHERE id = 1";

pub(crate) fn overview(db: &Connection, now: Timestamp) -> Result<Overview, Fault> {
    let mut overview = db.prepare_cached(OVERVIEW)?.query_row([now.as_micros()], |row| {
        Ok(Overview {
            pending: count(row, 0)?,
            pending_ready: count(row, 1)?,
            retrying: count(row, 2)?,
            failed: count(row, 3)?,
            delivered: count(row, 4)?,
            oldest_pending_age: row::optional_moment(row, 5)?.map(|created_at| now.since(created_at)),
        })
    })?;
    overview.pending_ready += expired(db, now)?;
    Ok(overview)
}

/// Leases that nobody holds any more, among those of the claims that are due for a check.
fn expired(db: &Connection, now: Timestamp) -> rusqlite::Result<u64> {
    let mut is_expired = db.prepare_cached(
        "SELECT 1 FROM webhook_queue WHERE id = ?1 AND lease_claim = ?2 AND lease_until <= ?3",
    )?;
    let mut expired = 0;
    for claim in claims::due_for_a_check(db, now)? {
        for key in claims::granted(db, claim)? {
            expired += u64::from(is_expired.exists((key.0, claim.0, now.as_micros()))?);
        }
    }
    Ok(expired)
}

fn count(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let count = row.get(column)?;
    u64::try_from(count).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, count))
}

/// Index: webhook_failures_updated_at, from the cursor's moment backwards; what it steps over is no more than what
/// was written in that very microsecond.
pub(crate) const DEAD_LETTERS: &str = "
    SELECT id FROM webhook_failures INDEXED BY webhook_failures_updated_at
    WHERE (updated_at, id) < (?1, ?2)
    ORDER BY updated_at DESC, id DESC LIMIT ?3";

pub(crate) fn dead_letters(db: &Connection, page: &PageRequest) -> Result<Page<EventView>, Fault> {
    let (at, key, limit) = bounds(page);
    let mut failed = db.prepare_cached(DEAD_LETTERS)?;
    let keys = failed.query_map((at, key, limit), |row| row.get(0).map(EventKey))?;
    paged(db, keys.collect::<Result<_, _>>()?, page, |event| event.updated_at)
}

pub(crate) fn events(
    db: &Connection,
    query: &EventQuery,
    page: &PageRequest,
) -> Result<Page<EventView>, Fault> {
    let (_, key, limit) = bounds(page);
    let mut listed = db.prepare_cached(&listing(query))?;
    let as_key = |row: &Row<'_>| row.get(0).map(EventKey);
    let keys = match &query.destination {
        Some(url) => listed.query_map((key, limit, url.as_str()), as_key)?,
        None => listed.query_map((key, limit), as_key)?,
    };
    paged(db, keys.collect::<Result<_, _>>()?, page, |event| event.created_at)
}

/// The cost of a page never grows with what was delivered. What it may have to step over is the backlog: pending and
/// failed events that are newer than those of a list of delivered ones, or pending events of other destinations.
///
/// The newest has the highest key. Indexes: webhook_events_destination, webhook_failures_destination; both end with it.
pub(crate) fn listing(query: &EventQuery) -> String {
    let of_destination = query.destination.is_some();
    let from = match (query.status, of_destination) {
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
    let destination =
        "AND l.destination_id = (SELECT id FROM webhook_destinations WHERE kind = 'url' AND url = ?3)";
    format!(
        "SELECT l.id FROM {from}
         WHERE l.id < ?1 {} {}
         ORDER BY l.id DESC LIMIT ?2",
        if query.status == Some(DeliveryStatus::Delivered) { delivered } else { "" },
        if of_destination { destination } else { "" },
    )
}

/// Where the page begins, and one row more than it holds.
fn bounds(page: &PageRequest) -> (i64, i64, i64) {
    let (at, key) = page.after.map_or((i64::MAX, i64::MAX), |after| (after.at.as_micros(), after.key.0));
    (at, key, i64::try_from(page.limit.get()).expect("a page is short") + 1)
}

/// The row more than the page holds tells whether there is a next.
fn paged(
    db: &Connection,
    mut keys: Vec<EventKey>,
    page: &PageRequest,
    at: impl Fn(&EventView) -> Timestamp,
) -> Result<Page<EventView>, Fault> {
    let more = keys.len() > page.limit.get();
    keys.truncate(page.limit.get());
    let items: Vec<EventView> = keys.into_iter().map(|key| row::event(db, key)).collect::<Result<_, _>>()?;
    let next = items.last().filter(|_| more).map(|last| Cursor { at: at(last), key: last.key });
    Ok(Page { items, next })
}

pub(crate) fn event(db: &Connection, event_id: &EventId) -> Result<EventDetail, Fault> {
    // Index: webhook_events_event_id.
    let event = db
        .prepare_cached(concat!(
            "SELECT ",
            event_columns!(),
            " FROM webhook_outbox_events WHERE event_id = ?1"
        ))?
        .query_row([event_id.as_str()], row::event_view)
        .optional()?
        .ok_or_else(|| StoreError::EventNotFound { event_id: event_id.clone() })?;
    let history = history(db, event.key)?;
    let audit = audit(db, event.key)?;
    Ok(EventDetail { event, history, audit })
}

fn history(db: &Connection, key: EventKey) -> rusqlite::Result<Vec<AttemptView>> {
    let mut attempts = db.prepare_cached(
        "SELECT lease_token, attempt, trigger, started_at, duration_us, http_status, error_class, excerpt, worker_id
         FROM webhook_attempts
         WHERE event_key = ?1
         ORDER BY lease",
    )?;
    let rows = attempts.query_map([key.0], |row| {
        Ok(AttemptView {
            token: LeaseToken::from_uuid(row::uuid(row, 0)?),
            attempt: row.get(1)?,
            trigger: row::word(row, 2, Trigger::from_word)?,
            started_at: row::moment(row, 3)?,
            duration: Duration::from_micros(count(row, 4)?),
            http_status: row.get(5)?,
            error_class: row::optional_word(row, 6, ErrorClass::from_word)?,
            excerpt: Excerpt::stored(row.get(7)?),
            worker: WorkerId::stored(row.get(8)?),
        })
    })?;
    rows.collect()
}

fn audit(db: &Connection, key: EventKey) -> rusqlite::Result<Vec<AuditView>> {
    // Index: webhook_audit_event.
    let mut audit = db.prepare_cached(
        "SELECT action, actor, at, reason FROM webhook_audit WHERE event_key = ?1 ORDER BY id",
    )?;
    let rows = audit.query_map([key.0], |row| {
        let action = row::word(row, 0, ManualAction::from_word)?;
        Ok(AuditView { action, actor: row.get(1)?, at: row::moment(row, 2)?, reason: row.get(3)? })
    })?;
    rows.collect()
}
