//! Destinations: their status and pending events for operators, pauses, resumes and circuit reports.

use std::time::Duration;

use posthaste_domain::{DeliveryStatus, DestinationId, Timestamp};
use posthaste_store::{
    CircuitReport, DESTINATION_AUDIT_MAX, DestinationAction, DestinationAudit, DestinationDetail,
    DestinationState, DestinationStatus, DestinationView, HELD_COUNT_MAX, LISTED_PENDING_COUNT_MAX,
    OpenCircuit, OperatorPause, PENDING_COUNT_MAX, Page, PageRequest, PauseRequest, PendingCount,
    ProbeResponse, RequestedProbe, ResumedDestination, StoreError,
};

use crate::state::{Destination, ReportedCircuit, Row, State};

pub(crate) fn destinations(
    state: &State,
    now: Timestamp,
    filter: Option<DestinationState>,
    page: &PageRequest<DestinationId>,
) -> Page<DestinationView, DestinationId> {
    let mut listed: Vec<DestinationStatus> = state
        .destinations
        .iter()
        .filter(|(id, _)| page.after.is_none_or(|after| **id > after))
        .map(|(id, destination)| destination.status(*id, now))
        .filter(|status| filter.is_none_or(|filter| status.state() == filter))
        .collect();
    let has_more = listed.len() > page.limit.get();
    listed.truncate(page.limit.get());
    let next = listed.last().filter(|_| has_more).map(|last| last.id);
    let view = |status| destination_view(state, now, status, LISTED_PENDING_COUNT_MAX);
    Page { items: listed.into_iter().map(view).collect(), next }
}

pub(crate) fn destination(
    state: &State,
    now: Timestamp,
    id: DestinationId,
) -> Result<DestinationDetail, StoreError> {
    let status = destination_status(state, now, id)?;
    let audit: Vec<DestinationAudit> = state
        .destination_audit
        .iter()
        .filter(|(audited, _)| *audited == id)
        .map(|(_, entry)| entry.clone())
        .collect();
    let skipped = audit.len().saturating_sub(DESTINATION_AUDIT_MAX);
    Ok(DestinationDetail {
        destination: destination_view(state, now, status, PENDING_COUNT_MAX),
        audit: audit.into_iter().skip(skipped).collect(),
    })
}

pub(crate) fn destination_status(
    state: &State,
    now: Timestamp,
    id: DestinationId,
) -> Result<DestinationStatus, StoreError> {
    let destination = state.destinations.get(&id).ok_or(StoreError::DestinationNotFound { id: id.0 })?;
    Ok(destination.status(id, now))
}

fn destination_view(
    state: &State,
    now: Timestamp,
    status: DestinationStatus,
    count_max: u64,
) -> DestinationView {
    let pending = || pending_rows(state, |row| row.destination_id == status.id);
    let in_flight = pending().filter(|row| row.lease.as_ref().is_some_and(|lease| !lease.is_expired(now)));
    let last_retry = pending()
        .filter(|row| row.attempts > 0 && row.lease.is_none())
        .max_by_key(|row| row.next_attempt_at)
        .and_then(|row| row.last_error.clone());
    let circuit_error = status.circuit.as_ref().and_then(|circuit| circuit.last_error.clone());
    DestinationView {
        in_flight: count(in_flight),
        pending: count_pending(pending(), now, count_max),
        last_error: circuit_error.or(last_retry),
        status,
    }
}

/// Counts the events without a lease whose destination is paused or has an open circuit.
pub(crate) fn count_held(state: &State, now: Timestamp) -> PendingCount {
    let is_held =
        |id: DestinationId| state.destinations.get(&id).is_some_and(|it| it.status(id, now).is_held());
    let held = pending_rows(state, |row| row.lease.is_none() && is_held(row.destination_id));
    count_pending(held, now, HELD_COUNT_MAX)
}

fn pending_rows(state: &State, matches: impl Fn(&Row) -> bool) -> impl Iterator<Item = &Row> {
    state.rows.values().filter(move |row| row.status == DeliveryStatus::Pending && matches(row))
}

fn count_pending<'a>(rows: impl Iterator<Item = &'a Row>, now: Timestamp, count_max: u64) -> PendingCount {
    let counted: Vec<Duration> = rows.map(|row| now.since(row.created_at)).collect();
    PendingCount::of(count(counted.iter()), count_max, counted.into_iter().max())
}

fn count<T>(items: impl Iterator<Item = T>) -> u64 {
    u64::try_from(items.count()).unwrap_or(u64::MAX)
}

pub(crate) fn pause(
    state: &mut State,
    now: Timestamp,
    id: DestinationId,
    pause: &PauseRequest,
) -> Result<DestinationStatus, StoreError> {
    let (actor, reason) = (pause.actor().to_owned(), pause.reason().map(str::to_owned));
    let until = pause.duration().map(|duration| now.after(duration));
    let destination = find_mut(state, id)?;
    destination.operator_pause =
        Some(OperatorPause { actor: actor.clone(), at: now, until, reason: reason.clone() });
    let status = destination.status(id, now);
    let entry = DestinationAudit { action: DestinationAction::Pause, actor, at: now, until, reason };
    state.destination_audit.push((id, entry));
    Ok(status)
}

pub(crate) fn resume(
    state: &mut State,
    now: Timestamp,
    id: DestinationId,
    actor: &str,
) -> Result<DestinationStatus, StoreError> {
    let destination = find_mut(state, id)?;
    destination.operator_pause = None;
    destination.receiver_pause = None;
    destination.circuits.clear();
    destination.resumed_at = Some(now);
    let status = destination.status(id, now);
    let entry = DestinationAudit {
        action: DestinationAction::Resume,
        actor: actor.to_owned(),
        at: now,
        until: None,
        reason: None,
    };
    state.destination_audit.push((id, entry));
    Ok(status)
}

pub(crate) fn probe(
    state: &mut State,
    now: Timestamp,
    id: DestinationId,
    actor: &str,
) -> Result<ProbeResponse, StoreError> {
    let is_waiting =
        |row: &Row| row.destination_id == id && row.status == DeliveryStatus::Pending && row.lease.is_none();
    let has_waiting_event = state.rows.values().any(is_waiting);
    let destination = find_mut(state, id)?;
    let status = destination.status(id, now);
    let refusal = status.refuse_probe(has_waiting_event);
    if refusal.is_none() {
        // Two requests differ in their times.
        let last = destination.probe_requested_at.map(|last| last.after(Duration::from_micros(1)));
        destination.probe_requested_at = last.max(Some(now));
        let (action, actor) = (DestinationAction::Probe, actor.to_owned());
        let entry = DestinationAudit { action, actor, at: now, until: None, reason: None };
        state.destination_audit.push((id, entry));
    }
    Ok(ProbeResponse { status, refusal })
}

/// Returns the destinations for which an operator has asked for a probe within the last `within`.
pub(crate) fn requested_probes(state: &State, now: Timestamp, within: Duration) -> Vec<RequestedProbe> {
    let after = now.before(within);
    let recent = state.destinations.iter().filter_map(|(id, destination)| {
        let requested_at = destination.probe_requested_at.filter(|at| *at > after)?;
        Some(RequestedProbe { destination: *id, requested_at })
    });
    recent.collect()
}

fn find_mut(state: &mut State, id: DestinationId) -> Result<&mut Destination, StoreError> {
    state.destinations.get_mut(&id).ok_or(StoreError::DestinationNotFound { id: id.0 })
}

/// Returns the destinations that were resumed within the last `within`.
pub(crate) fn resumed(state: &State, now: Timestamp, within: Duration) -> Vec<ResumedDestination> {
    let after = now.before(within);
    let recent = state.destinations.iter().filter_map(|(id, destination)| {
        let at = destination.resumed_at.filter(|at| *at > after)?;
        Some(ResumedDestination { destination: *id, ago: now.since(at) })
    });
    recent.collect()
}

/// Returns the destinations whose URL, keys or headers changed within the last `within`.
pub(crate) fn updated(state: &State, now: Timestamp, within: Duration) -> Vec<DestinationId> {
    let after = now.before(within);
    let is_recent = |destination: &Destination| destination.profile_updated_at.is_some_and(|at| at > after);
    state.destinations.iter().filter(|(_, it)| is_recent(it)).map(|(id, _)| *id).collect()
}

pub(crate) fn report_circuits(state: &mut State, now: Timestamp, reports: &[CircuitReport]) {
    for report in CircuitReport::last_of_each(reports) {
        let Some(destination) = state.destinations.get_mut(&report.destination) else { continue };
        let open = report.open.as_ref().map(|open| ReportedCircuit {
            circuit: OpenCircuit {
                since: now.before(open.open_for),
                next_probe_at: now.after(open.next_probe_in),
                last_error: open.last_error.clone(),
            },
            reported_at: now,
            expires_at: now.after(open.expires_in),
        });
        match open {
            None => {
                destination.circuits.remove(&report.worker);
            }
            Some(open) if destination.resumed_at.is_none_or(|at| open.circuit.since > at) => {
                destination.circuits.insert(report.worker.clone(), open);
            }
            // The circuit opened before the resume, of which the worker has not learned yet.
            Some(_) => {}
        }
    }
}
