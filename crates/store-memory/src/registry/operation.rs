//! Background operations: one step at a time, within their rate.

use std::cmp::Reverse;
use std::time::Duration;

use async_trait::async_trait;
use posthaste_domain::{EndpointId, EventId, EventKey, OperationId, Timestamp};
use posthaste_store::{
    Advance, AnswerSlot, AppScope, List, ListRequest, NewOperation, Operation, OperationKind, OperationState,
    Operations, StoreError,
};

use super::answer::change;
use super::publish::{add_event, find_enabled};
use super::{Message, MessageKey, OperationRow, resend};
use crate::MemoryStore;
use crate::state::{Row, State};

fn start(
    state: &mut State,
    now: Timestamp,
    scope: AppScope<'_>,
    new: &NewOperation<'_>,
) -> Result<Operation, StoreError> {
    let app = state.find_app(scope)?;
    let endpoint = EndpointId(find_enabled(state, app, new.endpoint)?);
    let (since, until) = new.range.times(now);
    state.registry.last_operation += 1;
    let operation = Operation {
        id: OperationId(state.registry.last_operation),
        app,
        endpoint,
        kind: new.kind,
        state: OperationState::Running,
        since,
        until,
        rate: new.rate,
        examined_count: 0,
        done_count: 0,
        actor: new.actor.to_owned(),
        created_at: now,
        updated_at: now,
    };
    let row = OperationRow { operation: operation.clone(), cursor: 0, spent_until: None };
    state.registry.operations.insert(operation.id, row);
    Ok(operation)
}

fn find_mut(state: &mut State, id: OperationId) -> Result<&mut OperationRow, StoreError> {
    let found = state.registry.operations.get_mut(&id);
    found.ok_or_else(|| StoreError::OperationNotFound { operation: id.to_string() })
}

/// Runs one step of every running operation.
fn advance(state: &mut State, now: Timestamp, rows_max: usize) -> Advance {
    let running = state.registry.operations.values();
    let running = running.filter(|row| row.operation.state == OperationState::Running);
    let running: Vec<OperationId> = running.map(|row| row.operation.id).collect();
    let mut advance = Advance::default();
    for id in running {
        let mut row = state.registry.operations[&id].clone();
        advance.done += step(state, now, &mut row, rows_max);
        if row.operation.state == OperationState::Running {
            let next_at = row.operation.rate.next_at(row.spent_until, now);
            let next_in = next_at.since(now);
            advance.next_in = Some(advance.next_in.map_or(next_in, |earlier: Duration| earlier.min(next_in)));
        }
        state.registry.operations.insert(id, row);
    }
    advance
}

/// Runs one step of an operation. Returns how many events it reopened or added.
fn step(state: &mut State, now: Timestamp, row: &mut OperationRow, rows_max: usize) -> usize {
    let operation = &mut row.operation;
    let available = operation.rate.available(row.spent_until, now);
    let keys: Vec<i64> = match operation.kind {
        OperationKind::Recover => {
            let events = state
                .rows
                .range((std::ops::Bound::Excluded(EventKey(row.cursor)), std::ops::Bound::Unbounded));
            let of_endpoint = events.filter(|(_, event)| event.destination_id == operation.endpoint.0);
            of_endpoint.map(|(key, _)| key.0).take(rows_max).collect()
        }
        OperationKind::ReplayMissing => {
            let after = std::ops::Bound::Excluded(MessageKey(row.cursor));
            let messages = state.registry.messages.range((after, std::ops::Bound::Unbounded));
            let of_app = messages.filter(|(_, message)| message.app == operation.app);
            of_app.map(|(key, _)| key.0).take(rows_max).collect()
        }
    };
    let (mut done, is_last) = (0, keys.len() < rows_max);
    for key in keys {
        let is_due = match operation.kind {
            OperationKind::Recover => is_recoverable(&state.rows[&EventKey(key)], operation),
            OperationKind::ReplayMissing => is_missing(state, MessageKey(key), operation),
        };
        if is_due && done == available {
            operation.updated_at = now;
            return spend(row, now, done);
        }
        if is_due {
            apply(state, now, key, operation);
            done += 1;
            operation.done_count += 1;
        }
        operation.examined_count += 1;
        row.cursor = key;
    }
    if is_last {
        operation.state = OperationState::Finished;
    }
    operation.updated_at = now;
    spend(row, now, done)
}

/// Spends the rate of an operation for `done` events, and returns `done`.
fn spend(row: &mut OperationRow, now: Timestamp, done: usize) -> usize {
    row.spent_until = Some(row.operation.rate.spend(row.spent_until, now, done));
    done
}

fn is_recoverable(row: &Row, operation: &Operation) -> bool {
    row.is_dead_letter() && (operation.since..=operation.until).contains(&row.created_at)
}

/// Returns whether an endpoint has no event of a message that its subscription matches.
fn is_missing(state: &State, key: MessageKey, operation: &Operation) -> bool {
    let message: &Message = &state.registry.messages[&key];
    let endpoint = state.endpoint_view(operation.endpoint.0);
    let first = EventId::of_fan_out(message.id, operation.endpoint.0);
    (operation.since..=operation.until).contains(&message.created_at)
        && message.payload.is_some()
        && endpoint.subscription.matches(&message.event_type, &message.channels)
        && !state.keys.contains_key(&first)
        && !state.discarded.contains_key(&first)
}

/// Reopens an event, or adds the missing event of a message.
fn apply(state: &mut State, now: Timestamp, key: i64, operation: &Operation) {
    match operation.kind {
        OperationKind::Recover => resend::reopen(state, now, EventKey(key), &operation.actor),
        OperationKind::ReplayMissing => {
            let (key, endpoint) = (MessageKey(key), operation.endpoint.0);
            let message = &state.registry.messages[&key];
            let (event_id, max_attempts) = (EventId::of_fan_out(message.id, endpoint), message.max_attempts);
            add_event(state, now, key, endpoint, event_id, max_attempts);
        }
    }
}

#[async_trait]
impl Operations for MemoryStore {
    async fn start(
        &self,
        scope: AppScope<'_>,
        new: &NewOperation<'_>,
        answer: Option<&AnswerSlot<Operation>>,
    ) -> Result<Operation, StoreError> {
        self.transact(|state, now| change(state, now, answer, |state| start(state, now, scope, new)))
    }

    async fn get(&self, scope: AppScope<'_>, id: OperationId) -> Result<Operation, StoreError> {
        self.transact(|state, _| {
            let app = state.find_app(scope)?;
            let operation = find_mut(state, id)?.operation.clone();
            let not_found = || StoreError::OperationNotFound { operation: id.to_string() };
            Some(operation).filter(|operation| operation.app == app).ok_or_else(not_found)
        })
    }

    async fn list(
        &self,
        state: Option<OperationState>,
        request: &ListRequest<OperationId>,
    ) -> Result<List<Operation>, StoreError> {
        let wanted = state;
        Ok(self.transact(|state, _| {
            let all = state.registry.operations.values().rev().map(|row| row.operation.clone());
            let listed = all.filter(|it| wanted.is_none_or(|wanted| it.state == wanted)).collect();
            request.cut(listed, |operation: &Operation, id| Reverse(operation.id).cmp(&Reverse(*id)))
        }))
    }

    async fn stop(&self, id: OperationId) -> Result<Operation, StoreError> {
        self.transact(|state, now| {
            let operation = &mut find_mut(state, id)?.operation;
            if operation.state == OperationState::Running {
                (operation.state, operation.updated_at) = (OperationState::Stopped, now);
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
