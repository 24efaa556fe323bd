//! Property "bulk": a step of the bulk operations changes only dead letters that a running operation selects, each once, by its
//! action.

use posthaste_domain::{BulkId, DeliveryStatus, EndpointId, Timestamp};
use posthaste_store::{Advance, BulkAction, BulkCandidate, BulkOperation};
use posthaste_store_memory::Row;

use super::step::{Change, check_cancelled, check_requeued};
use super::{CheckResult, Checker, Model, require};

impl Checker {
    /// Records an operation that was started, or that a repeated request returned.
    pub(super) fn record_bulk(&self, operation: &BulkOperation) {
        let mut model = self.model();
        if model.bulk.insert(operation.id, operation.clone()).is_none() {
            model.counts.bulk_operations += 1;
        }
    }

    /// Records that an operation was stopped: from now on it changes nothing.
    pub(super) fn record_bulk_stop(&self, id: BulkId) {
        self.model().bulk.remove(&id);
    }
}

/// Checks what a step has changed and removed.
pub(super) fn check_advance(
    advance: &Advance,
    changes: &[Change<'_>],
    removed: usize,
    model: &mut Model,
    now: Timestamp,
) -> CheckResult {
    let (done, changed) = (advance.done, changes.len() + removed);
    require!("bulk", done == changed, "{done} events were changed in bulk, but {changed} have changed");
    model.counts.changed_in_bulk += done as u64;
    for Change { before, after, .. } in changes {
        let Some(before) = before else {
            return Err(("bulk", format!("{} appeared in bulk", after.event_id)));
        };
        let action = match after.status {
            DeliveryStatus::Pending => BulkAction::Requeue,
            _ => BulkAction::Cancel,
        };
        check_selected(before, action, model)?;
        match action {
            BulkAction::Requeue => check_requeued(before, after, now)?,
            _ => check_cancelled(before, after, now)?,
        }
    }
    Ok(())
}

/// Checks that a running operation with this action selects the event, which has failed before the operation started.
pub(super) fn check_selected(row: &Row, action: BulkAction, model: &Model) -> CheckResult {
    let is_failed = row.status == DeliveryStatus::Failed;
    require!("bulk", is_failed, "{} was changed in bulk although it is {row:?}", row.event_id);
    let candidate = BulkCandidate {
        url: row.app.is_none().then_some(&row.destination_url),
        endpoint: row.app.map(|_| EndpointId(row.destination_id)),
        app: row.app,
        event_type: &row.event_type,
        failure_kind: row.failure_kind.expect("a failed event has a kind"),
        last_error: row.last_error.as_deref(),
        failed_at: row.updated_at,
    };
    let mut operations = model.bulk.values().filter(|operation| operation.action == action);
    let is_selected = operations.any(|operation| operation.filter.matches(&candidate));
    require!("bulk", is_selected, "no running operation selects {row:?} to {}", action.as_str());
    Ok(())
}
