//! Searches of failed events, the latest change first.

use posthaste_domain::{FailureKind, Timestamp};
use posthaste_store::{DeadLetterQuery, ErrorFilter, EventView, ExamineLimit, Page, PageCursor, PageRequest};
use rusqlite::Connection;

use super::Scope;
use super::walk::Walk;
use crate::error::CallError;

/// The condition on an error, of which a filter compares the beginning.
macro_rules! error_matches {
    ($error:literal) => {
        concat!("substr(", $error, ", 1, instr(", $error, " || ':', ':') - 1) LIKE ??")
    };
}
pub(super) use error_matches;

/// Returns whether a destination has no more failed events than a page may examine. Index: webhook_failures_destination.
fn has_few(db: &Connection, destination: i64, examine: ExamineLimit) -> rusqlite::Result<bool> {
    let max = i64::try_from(examine.get()).unwrap_or(i64::MAX);
    let more = db
        .prepare_cached("SELECT 1 FROM webhook_failures WHERE destination_id = ?1 LIMIT 1 OFFSET ?2")?
        .exists((destination, max))?;
    Ok(!more)
}

/// Chooses the walk over the failures.
///
/// Index: webhook_failures_updated_at, backwards from the cursor's timestamp. The query skips the rows of the cursor's own
/// microsecond. If a destination has few failures, the query reads all of them and sorts them: index
/// webhook_failures_destination. If it has many, the walk by time meets them.
pub(crate) fn choose_walk(
    db: &Connection,
    query: &DeadLetterQuery,
    scope: Scope,
    after: Option<PageCursor>,
) -> rusqlite::Result<Walk> {
    let filter = &query.filter;
    let of_few = match scope.destination() {
        Some(id) => has_few(db, id, query.examine)?.then_some(id),
        None => None,
    };
    let from = match of_few {
        Some(_) => "webhook_failures l INDEXED BY webhook_failures_destination",
        None => "webhook_failures l INDEXED BY webhook_failures_updated_at",
    };
    let (at, key) = after.map_or((i64::MAX, i64::MAX), |after| (after.at.as_micros(), after.key.0));
    let (at, key) = (at, key).min((filter.until.map_or(i64::MAX, Timestamp::as_micros), i64::MAX));
    let since = filter.since.map_or(i64::MIN, Timestamp::as_micros);
    let (order, end) = ("l.updated_at DESC, l.id DESC", "(l.updated_at, l.id) >= (??, ??)");
    let mut walk = Walk::new(from, order, end, [since.into(), 0.into()])
        .within("(l.updated_at, l.id) < (??, ??)", [at.into(), key.into()]);
    walk = match of_few {
        Some(id) => walk.within("l.destination_id = ??", [id.into()]),
        None => walk.only("l.destination_id = ??", scope.destination()),
    };
    let omits_cancelled = filter.failure_kind.is_none() && !query.with_cancelled;
    Ok(walk
        .only("e.app_id = ??", filter.app.map(|app| app.0))
        .only("e.event_type = ??", filter.event_type.clone())
        .only("l.failure_kind = ??", filter.failure_kind.map(|kind| kind.as_str().to_owned()))
        .only("l.failure_kind <> ??", omits_cancelled.then(|| FailureKind::Cancelled.as_str().to_owned()))
        .only(error_matches!("l.last_error"), filter.error.map(ErrorFilter::pattern)))
}

pub(crate) fn dead_letters(
    db: &Connection,
    query: &DeadLetterQuery,
    page: &PageRequest,
) -> Result<Page<EventView>, CallError> {
    let scope = Scope::of(db, query.filter.destination.as_ref(), query.filter.endpoint)?;
    if scope == Scope::None {
        return Ok(Page { items: Vec::new(), next: None });
    }
    let walk = choose_walk(db, query, scope, page.after)?;
    let position = |event: &EventView| PageCursor { at: event.updated_at, key: event.key };
    walk.list(db, page, query.examine, position, |last| [last.at.as_micros().into(), last.key.0.into()])
}
