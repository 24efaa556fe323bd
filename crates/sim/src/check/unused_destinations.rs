//! Checks of the destinations themselves: which of them may be removed, and that each event has its own.

use posthaste_domain::{DestinationId, Timestamp};
use posthaste_store::Retention;
use posthaste_store_memory::State;

use super::step::Step;
use super::{CheckResult, Model, require};

/// Only maintenance removes destinations, and only unused ones; an id is never used again; and every event has a destination
/// with its URL.
pub(super) fn check_destinations(
    step: &Step<'_>,
    model: &mut Model,
    state: &State,
    now: Timestamp,
) -> CheckResult {
    let is_removed = |id: &&DestinationId| !state.destinations.contains_key(id);
    for id in model.destinations.keys().filter(is_removed).copied().collect::<Vec<_>>() {
        let Step::Maintain { retention } = step else {
            return Err(("destination", format!("destination {id} has disappeared")));
        };
        check_removed(id, retention, model, now)?;
        model.destinations.remove(&id);
        model.paused.remove(&id);
        model.operator_paused.remove(&id);
        model.resumed.remove(&id);
        model.counts.destinations_removed += 1;
    }
    for (id, destination) in &state.destinations {
        if !model.destinations.contains_key(id) {
            let is_new = model.last_destination < Some(*id);
            require!("destination", is_new, "the id {id} of a removed destination was used again");
            model.last_destination = Some(*id);
            model.destinations.insert(*id, destination.created_at);
        }
    }
    let may_change_destinations =
        matches!(step, Step::Enqueue { .. } | Step::Publish { .. } | Step::Maintain { .. });
    for row in state.rows.values().filter(|_| may_change_destinations) {
        let url = state.destinations.get(&row.destination_id).map(|destination| &destination.url);
        let is_own = url == Some(&row.destination_url);
        require!("destination", is_own, "{} has the destination {url:?}", row.event_id);
    }
    Ok(())
}

/// A destination may be removed if it is not paused, and if it was neither created nor changed by an operator recently. An
/// endpoint may be removed, also during a pause, if it was deleted and not changed since.
fn check_removed(id: DestinationId, retention: &Retention, model: &Model, now: Timestamp) -> CheckResult {
    let endpoint = model.registry.endpoints.get(&id);
    let deleted_at = endpoint.and_then(|endpoint| endpoint.deleted_at);
    let is_live = endpoint.is_some() && deleted_at.is_none();
    require!("destination", !is_live, "endpoint {id} was removed, although it was not deleted");
    let is_paused = model.paused_until(id).is_some_and(|until| until > now);
    require!("destination", endpoint.is_some() || !is_paused, "destination {id} was removed during a pause");
    let used_at = model.destinations.get(&id).copied();
    let used_at = used_at.max(model.resumed.get(&id).copied());
    let used_at = used_at.max(model.operator_paused.get(&id).map(|pause| pause.at)).max(deleted_at);
    let is_old = used_at
        .zip(retention.keep_unused_destinations_for)
        .is_some_and(|(at, keep_for)| now.since(at) >= keep_for);
    require!("destination", is_old, "destination {id} was removed, although it was in use at {used_at:?}");
    Ok(())
}
