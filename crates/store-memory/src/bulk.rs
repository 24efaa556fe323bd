//! Bulk operations on dead letters: one step at a time, within their rate.

use std::cmp::Reverse;
use std::ops::Bound;

use async_trait::async_trait;
use posthaste_domain::{BulkId, DeliveryStatus, EndpointId, EventKey, Timestamp, clean_reason};
use posthaste_store::{
    ActionRequest, Advance, BulkAction, BulkCandidate, BulkCount, BulkFilter, BulkOperation, BulkOperations,
    ExaminedDeadLetter, List, ListRequest, NewBulkOperation, OperationState, RunningBulk, StoreError,
};

use crate::state::{Row, State};
use crate::{MemoryStore, operate};

/// The bulk operations of a store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BulkTable {
    pub operations: std::collections::BTreeMap<BulkId, BulkRow>,
    last_id: i64,
}

/// A bulk operation with the key of the request that started it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BulkRow {
    pub running: RunningBulk,
    pub request_key: Option<String>,
}

/// Returns an event as a filter sees it, if it has failed.
pub(crate) fn candidate(row: &Row) -> Option<BulkCandidate<'_>> {
    let failure_kind = row.failure_kind.filter(|_| row.status == DeliveryStatus::Failed)?;
    Some(BulkCandidate {
        url: row.app.is_none().then_some(&row.destination_url),
        endpoint: row.app.map(|_| EndpointId(row.destination_id)),
        app: row.app,
        event_type: &row.event_type,
        failure_kind,
        last_error: row.last_error.as_deref(),
        failed_at: row.updated_at,
    })
}

fn is_selected(filter: &BulkFilter, row: &Row) -> bool {
    candidate(row).is_some_and(|candidate| filter.matches(&candidate))
}

fn start(state: &mut State, now: Timestamp, new: &NewBulkOperation<'_>) -> BulkOperation {
    let mut rows = state.bulk.operations.values();
    if let Some(started) = rows.find(|row| new.key.is_some() && row.request_key.as_deref() == new.key) {
        return started.running.operation.clone();
    }
    state.bulk.last_id += 1;
    let until = new.filter.until.map_or(now, |until| until.min(now));
    let operation = BulkOperation {
        id: BulkId(state.bulk.last_id),
        action: new.action,
        state: OperationState::Running,
        filter: BulkFilter { until: Some(until), ..new.filter.clone() },
        rate: new.rate,
        matched: new.matched,
        examined_count: 0,
        done_count: 0,
        reason: clean_reason(new.reason),
        actor: new.actor.to_owned(),
        stopped_by: None,
        created_at: now,
        updated_at: now,
    };
    let running = RunningBulk { operation: operation.clone(), cursor: 0, spent_until: None };
    let row = BulkRow { running, request_key: new.key.map(str::to_owned) };
    state.bulk.operations.insert(operation.id, row);
    operation
}

fn find_mut(state: &mut State, id: BulkId) -> Result<&mut BulkOperation, StoreError> {
    let found = state.bulk.operations.get_mut(&id).map(|row| &mut row.running.operation);
    found.ok_or_else(|| StoreError::OperationNotFound { operation: id.to_string() })
}

/// Runs one step of every running operation.
fn advance(state: &mut State, now: Timestamp, rows_max: usize) -> Advance {
    let running = state.bulk.operations.iter();
    let running = running.filter(|(_, row)| row.running.operation.state == OperationState::Running);
    let running: Vec<BulkId> = running.map(|(id, _)| *id).collect();
    let mut advance = Advance::default();
    for id in running {
        let mut row = state.bulk.operations[&id].clone();
        advance.add(step(state, now, &mut row.running, rows_max));
        state.bulk.operations.insert(id, row);
    }
    advance
}

fn step(state: &mut State, now: Timestamp, running: &mut RunningBulk, rows_max: usize) -> Advance {
    let after = (Bound::Excluded(EventKey(running.cursor)), Bound::Unbounded);
    let failed = state.rows.range(after).filter(|(_, row)| row.status == DeliveryStatus::Failed);
    let of_destination = failed.filter(|(_, row)| is_of_destination(&running.operation.filter, row));
    let read: Vec<ExaminedDeadLetter> = of_destination
        .take(rows_max)
        .map(|(key, row)| ExaminedDeadLetter {
            key: key.0,
            is_selected: is_selected(&running.operation.filter, row),
        })
        .collect();
    let keys = running.plan_step(&read, rows_max, now);
    for key in &keys {
        apply(state, now, EventKey(*key), &running.operation);
    }
    running.finish_step(keys.len(), now)
}

/// Returns whether the event goes to the URL or the endpoint of the filter. A step reads no other events.
fn is_of_destination(filter: &BulkFilter, row: &Row) -> bool {
    let only = BulkFilter {
        destination: filter.destination.clone(),
        endpoint: filter.endpoint,
        failure_kind: row.failure_kind,
        ..BulkFilter::default()
    };
    is_selected(&only, row)
}

fn apply(state: &mut State, now: Timestamp, key: EventKey, operation: &BulkOperation) {
    let (request, reason) = (ActionRequest::from(operation.actor.as_str()), operation.reason.as_deref());
    let event_id = state.rows[&key].event_id.clone();
    let applied = match operation.action {
        BulkAction::Requeue => operate::requeue(state, now, &event_id, request).map(drop),
        BulkAction::Cancel => operate::cancel(state, now, &event_id, request, reason).map(drop),
        BulkAction::Discard => operate::discard(state, now, &event_id, request, reason).map(drop),
    };
    applied.expect("the event has failed");
}

#[async_trait]
impl BulkOperations for MemoryStore {
    async fn count(&self, filter: &BulkFilter) -> Result<BulkCount, StoreError> {
        let count =
            self.with_state(|state| state.rows.values().filter(|row| is_selected(filter, row)).count());
        Ok(BulkCount::of(u64::try_from(count).unwrap_or(u64::MAX)))
    }

    async fn start(&self, new: &NewBulkOperation<'_>) -> Result<BulkOperation, StoreError> {
        Ok(self.transact(|state, now| start(state, now, new)))
    }

    async fn get(&self, id: BulkId) -> Result<BulkOperation, StoreError> {
        self.with_state(|state| find_mut(state, id).cloned())
    }

    async fn list(
        &self,
        state: Option<OperationState>,
        request: &ListRequest<BulkId>,
    ) -> Result<List<BulkOperation>, StoreError> {
        let wanted = state;
        Ok(self.with_state(|state| {
            let all = state.bulk.operations.values().rev().map(|row| row.running.operation.clone());
            let listed = all.filter(|it| wanted.is_none_or(|wanted| it.state == wanted)).collect();
            request.cut(listed, |operation: &BulkOperation, id| Reverse(operation.id).cmp(&Reverse(*id)))
        }))
    }

    async fn stop(&self, id: BulkId, actor: &str) -> Result<BulkOperation, StoreError> {
        self.transact(|state, now| {
            let operation = find_mut(state, id)?;
            if operation.state == OperationState::Running {
                (operation.state, operation.updated_at) = (OperationState::Stopped, now);
                operation.stopped_by = Some(actor.to_owned());
            }
            Ok(operation.clone())
        })
    }

    async fn advance(&self, rows_max: usize) -> Result<Advance, StoreError> {
        let advance = self.transact(|state, now| advance(state, now, rows_max));
        if advance.done > 0 {
            self.waker.wake();
        }
        Ok(advance)
    }
}
