//! Searches of events in any state, the newest first.

use posthaste_domain::{DeliveryStatus, EventKey, Timestamp};
use posthaste_store::{ErrorFilter, EventQuery, EventView, KeySearch, Page, PageCursor, PageRequest};
use rusqlite::{Connection, OptionalExtension as _};

use super::Scope;
use super::dead_letters::error_matches;
use super::walk::Walk;
use crate::error::CallError;
use crate::row;

const IS_PENDING: &str = "EXISTS (SELECT 1 FROM webhook_queue q WHERE q.id = l.id)";
const IS_RETRYING: &str = "EXISTS (SELECT 1 FROM webhook_queue q WHERE q.id = l.id AND q.attempts > 0)";
const IS_FAILED: &str = "EXISTS (SELECT 1 FROM webhook_failures f WHERE f.id = l.id)";
const IS_DELIVERED: &str = "NOT EXISTS (SELECT 1 FROM webhook_queue q WHERE q.id = l.id)
    AND NOT EXISTS (SELECT 1 FROM webhook_failures f WHERE f.id = l.id)";

/// The part of an event's keys to which a search is limited: from `low` on, below `high`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyRange {
    pub(crate) low: i64,
    pub(crate) high: i64,
}

impl KeyRange {
    /// Finds the keys below `high` of the times of a query.
    fn of(db: &Connection, query: &EventQuery, high: i64) -> rusqlite::Result<Self> {
        let mut range = Self { low: 0, high };
        if query.since.is_none() && query.until.is_none() {
            return Ok(range);
        }
        let newest: Option<i64> =
            db.prepare_cached("SELECT max(id) FROM webhook_events")?.query_row([], |row| row.get(0))?;
        let newest = EventKey(newest.unwrap_or(0).min(high.saturating_sub(1)));
        if let Some(since) = query.since {
            range.low = find(db, KeySearch::start_of(since, newest))?.0;
        }
        if let Some(until) = query.until {
            range.high = find(db, KeySearch::end_of(until, newest))?.0.min(high);
        }
        Ok(range)
    }
}

fn find(db: &Connection, mut search: KeySearch) -> rusqlite::Result<EventKey> {
    let mut first =
        db.prepare_cached("SELECT id, created_at FROM webhook_events WHERE id >= ?1 ORDER BY id LIMIT 1")?;
    while let Some(EventKey(probe)) = search.probe() {
        let found: Option<(EventKey, Timestamp)> = first
            .query_row([probe], |row| Ok((EventKey(row.get(0)?), row::timestamp(row, 1)?)))
            .optional()?;
        search.narrow(found);
    }
    Ok(search.bound())
}

/// Chooses the walk that meets the fewest events which the query leaves out.
///
/// The newest event has the highest key. Indexes: webhook_events_event_id, webhook_events_payment_request_id,
/// webhook_events_session_id, webhook_events_webhook_id, webhook_events_destination, webhook_failures_destination; all contain
/// the key as their last column.
pub(crate) fn choose_walk(query: &EventQuery, scope: Scope, keys: KeyRange) -> Walk {
    use DeliveryStatus::{Delivered, Failed, Pending};
    let status = query.implied_status();
    let event_id = query.event_id.as_ref().map(|id| id.as_str().to_owned());
    let references = [
        ("webhook_events l INDEXED BY webhook_events_event_id", "l.event_id = ??", event_id),
        (
            "webhook_events l INDEXED BY webhook_events_payment_request_id",
            "l.payment_request_id = ??",
            query.payment_request_id.clone(),
        ),
        (
            "webhook_events l INDEXED BY webhook_events_session_id",
            "l.session_id = ??",
            query.session_id.clone(),
        ),
        (
            "webhook_events l INDEXED BY webhook_events_webhook_id",
            "l.app_id = 0 AND l.webhook_id = ??",
            query.webhook_id.clone(),
        ),
    ];
    let reference =
        references.iter().find_map(|(from, condition, value)| Some((*from, *condition, value.clone()?)));
    let has_destination = scope.destination().is_some();
    let (from, is_of_destination) = match (&reference, status) {
        (Some((from, ..)), _) => (*from, false),
        (None, Some(Pending)) => ("webhook_queue l", false),
        (None, Some(Failed)) if has_destination => {
            ("webhook_failures l INDEXED BY webhook_failures_destination", true)
        }
        (None, Some(Failed)) => ("webhook_failures l", false),
        (None, None | Some(Delivered)) if has_destination => {
            ("webhook_events l INDEXED BY webhook_events_destination", true)
        }
        (None, None | Some(Delivered)) => ("webhook_events l", false),
    };
    let mut walk =
        Walk::new(from, "l.id DESC", "l.id >= ??", [keys.low.into()]).within("l.id < ??", [keys.high.into()]);
    if let Some((_, condition, value)) = reference.clone() {
        walk = walk.within(condition, [value.into()]);
    }
    walk = match scope.destination().filter(|_| is_of_destination) {
        Some(id) => walk.within("l.destination_id = ??", [id.into()]),
        None => walk.only("e.destination_id = ??", scope.destination()),
    };
    let walks_over_events = reference.is_some() || matches!(status, None | Some(Delivered));
    for (_, condition, value) in references {
        let is_served = reference.as_ref().is_some_and(|(_, served, _)| *served == condition);
        walk = walk.only(&condition.replace("l.", "e."), value.filter(|_| !is_served));
    }
    walk.only_if(walks_over_events && status == Some(Pending), IS_PENDING)
        .only_if(walks_over_events && status == Some(Failed), IS_FAILED)
        .only_if(status == Some(Delivered), IS_DELIVERED)
        .only_if(query.retrying, IS_RETRYING)
        .only("e.app_id = ??", query.app.map(|app| app.0))
        .only("e.event_type = ??", query.event_type.clone())
        .only("v.failure_kind = ??", query.failure_kind.map(|kind| kind.as_str().to_owned()))
        .only(error_matches!("v.last_error"), query.error.map(ErrorFilter::pattern))
        .only("e.created_at >= ??", query.since.map(Timestamp::as_micros))
        .only("e.created_at <= ??", query.until.map(Timestamp::as_micros))
}

/// Lists events, the newest first.
pub(crate) fn events(
    db: &Connection,
    query: &EventQuery,
    page: &PageRequest,
) -> Result<Page<EventView>, CallError> {
    let scope = Scope::of(db, query.destination.as_ref(), query.endpoint)?;
    if scope == Scope::None {
        return Ok(Page { items: Vec::new(), next: None });
    }
    let keys = KeyRange::of(db, query, page.after.map_or(i64::MAX, |after| after.key.0))?;
    let position = |event: &EventView| PageCursor { at: event.created_at, key: event.key };
    choose_walk(query, scope, keys).list(db, page, query.examine, position, |last| [last.key.0.into()])
}
