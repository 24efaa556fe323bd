//! Checks of disabled and deleted endpoints: the events of a disabled endpoint are held, those of a deleted one are cancelled.

use posthaste_domain::{DeliveryStatus, DestinationId, EndpointChange, FailureKind, Timestamp};
use posthaste_store::{SettleResult, Settlement};
use posthaste_store_memory::{Row, State};

use super::registry::EndpointState;
use super::step::Change;
use super::{CheckResult, Checker, Model, require};
use crate::scenario::Scenario;

/// The reason of a cancellation, as the store writes it into the last error.
const DELETED: &str = "manual_cancelled: the endpoint was deleted";

/// No claim grants an event of an endpoint that is disabled or deleted.
pub(super) fn check_leases(granted: &[&Change<'_>], model: &Model) -> CheckResult {
    for change in granted {
        let state = model.registry.state_of(change.after.destination_id);
        let may_send = state.is_none_or(|state| state == EndpointState::Enabled);
        let (id, event_id) = (change.after.destination_id, &change.after.event_id);
        require!("held", may_send, "{event_id} was leased although endpoint {id} is {state:?}");
    }
    Ok(())
}

/// An endpoint is disabled and enabled by its clients, and disabled by a response that it is gone, and by nothing else.
pub(super) fn check_states(model: &Model, state: &State) -> CheckResult {
    for (id, endpoint) in &model.registry.endpoints {
        let stored = state.destinations.get(id).and_then(|destination| destination.endpoint.as_ref());
        let stored =
            stored.map_or(EndpointState::Deleted, |stored| match (stored.deleted_at, stored.disabled) {
                (Some(_), _) => EndpointState::Deleted,
                (None, Some(_)) => EndpointState::Disabled,
                (None, None) => EndpointState::Enabled,
            });
        require!(
            "held",
            stored == endpoint.state,
            "endpoint {id} is {stored:?} instead of {:?}",
            endpoint.state
        );
    }
    Ok(())
}

/// The deletion of an endpoint cancels its pending events.
pub(super) fn check_cancelled(before: &Row, after: &Row, model: &Model, now: Timestamp) -> CheckResult {
    let state = model.registry.state_of(before.destination_id);
    let is_due = state == Some(EndpointState::Deleted) && before.status == DeliveryStatus::Pending;
    require!("held", is_due, "{} was cancelled, and endpoint is {state:?}", after.event_id);
    let expected = Row {
        status: DeliveryStatus::Failed,
        failure_kind: Some(FailureKind::Cancelled),
        next_attempt_at: None,
        last_error: Some(DELETED.to_owned()),
        lease: None,
        updated_at: now,
        manual_last: after.manual_last.clone(),
        ..before.clone()
    };
    require!("held", *after == expected, "a deletion changed {before:?} to {after:?}");
    Ok(())
}

/// No event of an endpoint is pending after its deletion.
pub(super) fn check_deleted(id: DestinationId, state: &State) -> CheckResult {
    let is_left = |row: &&Row| row.destination_id == id && row.status == DeliveryStatus::Pending;
    let left = state.rows.values().find(is_left);
    require!("held", left.is_none(), "endpoint {id} was deleted, but {left:?} is pending");
    Ok(())
}

/// Records the endpoints that results disable: those whose receivers responded with 410, if a 410 is final. Returns the
/// settlements that did it.
pub(super) fn record_gone<'a>(
    batch: &'a [Settlement],
    settled: &[SettleResult],
    model: &mut Model,
    scenario: &Scenario,
) -> Vec<&'a Settlement> {
    let mut disabling = Vec::new();
    for (settlement, settled) in batch.iter().zip(settled) {
        let transition = &settlement.transition;
        let is_gone = transition.outcome().http_status() == Some(410) && scenario.retry.gone_is_final();
        if *settled != SettleResult::Applied || !is_gone {
            continue;
        }
        let Some(endpoint) = model.registry.endpoints.get_mut(&transition.destination_id()) else { continue };
        if endpoint.state == EndpointState::Enabled {
            endpoint.state = EndpointState::Disabled;
            model.counts.registry.disabled_by_receivers += 1;
            disabling.push(settlement);
        }
    }
    disabling
}

impl Checker {
    /// Records a change of an endpoint. Enabling it ends a pause that its receiver requested, and closes its circuits.
    pub(super) fn record_endpoint_change(&self, id: DestinationId, change: &EndpointChange) {
        let now = self.clock.timestamp();
        let mut model = self.model();
        let Some(endpoint) = model.registry.endpoints.get_mut(&id) else { return };
        match (change.is_disabled, endpoint.state) {
            (Some(true), EndpointState::Enabled) => {
                endpoint.state = EndpointState::Disabled;
                model.counts.registry.disabled += 1;
            }
            (Some(false), EndpointState::Disabled) => {
                endpoint.state = EndpointState::Enabled;
                model.counts.registry.enabled += 1;
                model.paused.remove(&id);
                model.resumed.insert(id, now);
                model.circuits.record_resume(id, self.clock.elapsed());
            }
            _ => {}
        }
    }

    /// Records the deletion of an endpoint.
    pub(super) fn record_deletion(&self, id: DestinationId) {
        let now = self.clock.timestamp();
        let mut model = self.model();
        model.counts.registry.deleted += 1;
        if let Some(endpoint) = model.registry.endpoints.get_mut(&id) {
            (endpoint.state, endpoint.deleted_at) = (EndpointState::Deleted, Some(now));
        }
    }
}
