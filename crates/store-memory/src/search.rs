//! Searches of operators for events. The conditions that other stores find through an index select the rows that count as
//! examined.

use posthaste_domain::{DeliveryStatus, EventKey, Timestamp};
use posthaste_store::{DeadLetterQuery, EventQuery, EventView, ExamineLimit, Page, PageCursor, PageRequest};

use crate::bulk::candidate;
use crate::state::{Row, State};

pub(crate) fn dead_letters(state: &State, query: &DeadLetterQuery, page: &PageRequest) -> Page<EventView> {
    let filter = &query.filter;
    let indexed = state.rows.iter().filter(|(_, row)| {
        candidate(row).is_some_and(|candidate| {
            filter.destination.as_ref().is_none_or(|url| candidate.url == Some(url))
                && filter.endpoint.is_none_or(|endpoint| candidate.endpoint == Some(endpoint))
                && is_within(filter.since, filter.until, candidate.failed_at)
        })
    });
    let matches = |row: &Row| candidate(row).is_some_and(|candidate| query.matches(&candidate));
    search(indexed, |row| row.updated_at, matches, query.examine, page)
}

pub(crate) fn events(state: &State, query: &EventQuery, page: &PageRequest) -> Page<EventView> {
    let has = |wanted: &Option<String>, value: &Option<String>| wanted.is_none() || wanted == value;
    let indexed = state.rows.iter().filter(|(_, row)| {
        query.event_id.as_ref().is_none_or(|id| row.event_id == *id)
            && query.status.is_none_or(|status| row.status == status)
            && (!query.retrying || row.status == DeliveryStatus::Pending)
            && query.destination.as_ref().is_none_or(|url| row.app.is_none() && row.destination_url == *url)
            && query.endpoint.is_none_or(|endpoint| row.app.is_some() && row.destination_id == endpoint.0)
            && has(&query.payment_request_id, &row.payment_request_id)
            && has(&query.session_id, &row.session_id)
            && (query.webhook_id.is_none() || row.app.is_none() && query.webhook_id == row.webhook_id)
            && is_within(query.since, query.until, row.created_at)
    });
    let matches = |row: &Row| {
        (!query.retrying || row.attempts > 0)
            && query.app.is_none_or(|app| row.app == Some(app))
            && query.event_type.as_ref().is_none_or(|wanted| row.event_type == *wanted)
            && query.failure_kind.is_none_or(|kind| row.failure_kind == Some(kind))
            && query
                .error
                .is_none_or(|error| row.last_error.as_deref().is_some_and(|last| error.matches(last)))
    };
    search(indexed, |row| row.created_at, matches, query.examine, page)
}

fn is_within(since: Option<Timestamp>, until: Option<Timestamp>, at: Timestamp) -> bool {
    since.is_none_or(|since| at >= since) && until.is_none_or(|until| at <= until)
}

/// Examines rows by time, latest first, up to the limit, and cuts out the page.
fn search<'a>(
    rows: impl Iterator<Item = (&'a EventKey, &'a Row)>,
    at: impl Fn(&Row) -> Timestamp,
    matches: impl Fn(&Row) -> bool,
    examine: ExamineLimit,
    page: &PageRequest,
) -> Page<EventView> {
    let mut rows: Vec<(PageCursor, &Row)> = rows
        .map(|(key, row)| (PageCursor { at: at(row), key: *key }, row))
        .filter(|(cursor, _)| page.after.is_none_or(|after| *cursor < after))
        .collect();
    rows.sort_unstable_by_key(|(cursor, _)| std::cmp::Reverse(*cursor));
    let limit = page.limit.get();
    let examined = &rows[..rows.len().min(examine.get())];
    let found: Vec<_> = examined.iter().filter(|(_, row)| matches(row)).take(limit + 1).collect();
    let next = if found.len() > limit {
        found.get(limit - 1).map(|(cursor, _)| *cursor)
    } else {
        // The search goes on after the last row that was examined.
        examined.last().filter(|_| examined.len() < rows.len()).map(|(cursor, _)| *cursor)
    };
    let items = found.into_iter().take(limit).map(|(cursor, row)| row.view(cursor.key)).collect();
    Page { items, next }
}
