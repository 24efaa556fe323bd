//! Queries of operators and of notice subscribers.

use posthaste_domain::{DeliveryStatus, EventId, EventKey, FailureKind, Timestamp};
use posthaste_store::{
    AttemptView, DeadLetterFilter, EventDetail, EventQuery, EventView, NoticeCursor, NoticePage, Overview,
    Page, PageCursor, PageRequest, StoreError,
};

use crate::destination::count_held;
use crate::state::{Attempt, Row, State};

pub(crate) fn overview(state: &State, now: Timestamp) -> Overview {
    let mut overview = Overview { held: count_held(state, now), ..Overview::default() };
    for row in state.rows.values() {
        match row.status {
            DeliveryStatus::Delivered => overview.delivered += 1,
            DeliveryStatus::Failed => {
                overview.failed += 1;
                overview.cancelled += u64::from(row.failure_kind == Some(FailureKind::Cancelled));
            }
            DeliveryStatus::Pending => {
                overview.pending += 1;
                overview.pending_ready += u64::from(row.is_ready(now));
                overview.retrying += u64::from(row.attempts > 0);
                overview.oldest_pending_age =
                    overview.oldest_pending_age.max(Some(now.since(row.created_at)));
            }
        }
    }
    overview
}

pub(crate) fn dead_letters(state: &State, filter: DeadLetterFilter, page: &PageRequest) -> Page<EventView> {
    let failed =
        state.rows.iter().filter(|(_, row)| row.failure_kind.is_some_and(|kind| filter.includes(kind)));
    paginate(failed, |row| row.updated_at, page)
}

pub(crate) fn events(state: &State, query: &EventQuery, page: &PageRequest) -> Page<EventView> {
    let matching = state.rows.iter().filter(|(_, row)| {
        query.status.is_none_or(|status| row.status == status)
            && query.destination.as_ref().is_none_or(|url| row.app.is_none() && row.destination_url == *url)
            && query.endpoint.is_none_or(|endpoint| row.app.is_some() && row.destination_id == endpoint.0)
    });
    paginate(matching, |row| row.created_at, page)
}

/// Sorts rows by time, latest first, and cuts out the page.
fn paginate<'a>(
    rows: impl Iterator<Item = (&'a EventKey, &'a Row)>,
    at: impl Fn(&Row) -> Timestamp,
    page: &PageRequest,
) -> Page<EventView> {
    let mut rows: Vec<(PageCursor, &Row)> = rows
        .map(|(key, row)| (PageCursor { at: at(row), key: *key }, row))
        .filter(|(cursor, _)| page.after.is_none_or(|after| *cursor < after))
        .collect();
    rows.sort_unstable_by_key(|(cursor, _)| std::cmp::Reverse(*cursor));
    let limit = page.limit.get();
    let next = if rows.len() > limit { rows.get(limit - 1).map(|(cursor, _)| *cursor) } else { None };
    let items = rows.into_iter().take(limit).map(|(cursor, row)| row.view(cursor.key)).collect();
    Page { items, next }
}

pub(crate) fn event(state: &State, event_id: &EventId) -> Result<EventDetail, StoreError> {
    let key = state.find_key(event_id)?;
    let mut attempts: Vec<&Attempt> = state.attempts.values().filter(|attempt| attempt.key == key).collect();
    attempts.sort_by_key(|attempt| attempt.revision);
    let audit = state.audit.iter().filter(|(audited, _)| *audited == key).map(|(_, audit)| audit.clone());
    Ok(EventDetail {
        event: state.rows[&key].view(key),
        history: attempts.into_iter().map(attempt_view).collect(),
        audit: audit.collect(),
    })
}

pub(crate) fn attempt_view(attempt: &Attempt) -> AttemptView {
    let transition = &attempt.transition;
    AttemptView {
        token: transition.token(),
        attempt: transition.attempt(),
        trigger: transition.trigger(),
        started_at: attempt.started_at,
        duration: transition.duration(),
        http_status: transition.outcome().http_status(),
        error_class: transition.outcome().error_class(),
        excerpt: transition.outcome().excerpt().clone(),
        worker: attempt.worker.clone(),
        applied: attempt.applied,
    }
}

pub(crate) fn notices(state: &State, after: Option<NoticeCursor>, limit: usize) -> NoticePage {
    let Some(after) = after.filter(|after| *after <= state.last_cursor) else {
        return NoticePage { notices: Vec::new(), cursor: state.last_cursor };
    };
    let start = state.notices.partition_point(|published| published.cursor <= after);
    let notices: Vec<_> = state.notices[start..].iter().take(limit).cloned().collect();
    let cursor = notices.last().map_or(after, |last| last.cursor);
    NoticePage { notices, cursor }
}
