//! Queries of operators and of notice subscribers.

use posthaste_domain::{DeliveryStatus, EventId, FailureKind, Timestamp};
use posthaste_store::{
    AttemptView, EventDetail, NoticeCursor, NoticePage, Overview, PublishedNotice, StoreError,
};

use crate::destination::count_held;
use crate::state::{Attempt, State};

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
    let read = |published: &PublishedNotice| PublishedNotice {
        subject: state.notice_subject(&published.notice.event_id),
        ..published.clone()
    };
    let notices: Vec<_> = state.notices[start..].iter().take(limit).map(read).collect();
    let cursor = notices.last().map_or(after, |last| last.cursor);
    NoticePage { notices, cursor }
}
