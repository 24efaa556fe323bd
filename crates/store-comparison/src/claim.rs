//! Claims: the store picks, the model judges the choice and follows it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use posthaste_domain::{
    ClaimId, DestinationId, DestinationUrl, Ending, EventId, EventKey, Lease, Timestamp, Trigger, WorkerId,
};
use posthaste_store::{ClaimRequest, Claimed, Store as _};
use posthaste_store_memory::{Row, State};

use crate::difference::{Agreed, Difference, same};
use crate::moments::near;
use crate::operation::{Claim, Handle, Nth};
use crate::pair::{Both, Pair};

impl Pair<'_> {
    pub(crate) async fn claim(&mut self, handle: Handle, claim: &Claim) -> Agreed<String> {
        let slots = |of: fn(Both<DestinationId>) -> DestinationId| -> BTreeMap<DestinationId, usize> {
            claim.free_slots.iter().map(|(place, slots)| (of(self.destination(*place)), *slots)).collect()
        };
        let model = ClaimRequest {
            id: claim_id(),
            owner: WorkerId::new(claim.owner.name()).expect("visible ASCII"),
            lease: claim.lease,
            limit: claim.limit,
            retries_max: claim.retries_max,
            per_destination: claim.per_destination,
            free_slots: slots(|both| both.model),
            abandon_after: claim.abandon_after,
        };
        let request =
            Both { store: ClaimRequest { free_slots: slots(|both| both.store), ..model.clone() }, model };
        self.claims.push(request.clone());
        self.ask(handle, &request).await
    }

    pub(crate) async fn claim_again(&mut self, handle: Handle, claim: Nth, limit: usize) -> Agreed<String> {
        let Some(Both { store, model }) = claim.of(&self.claims).cloned() else { return Ok(String::new()) };
        let request = Both { store: ClaimRequest { limit, ..store }, model: ClaimRequest { limit, ..model } };
        self.tally.count("claims asked again", 1);
        self.ask(handle, &request).await
    }

    async fn ask(&mut self, handle: Handle, request: &Both<ClaimRequest>) -> Agreed<String> {
        let store = self.store(handle).claim(&request.store).await;
        let store = store.map_err(|error| Difference::failed("claim", &error))?;
        let keys = self.keys_of(&store.leases)?;
        let now = self.now();
        let is_granted = self.model.with_state(|state| {
            state
                .rows
                .values()
                .any(|row| row.lease.as_ref().is_some_and(|lease| lease.claim == request.model.id))
        });
        let model = if is_granted {
            self.model.claim(&request.model).await.expect("the model is always up")
        } else {
            self.model.with_state(|state| judge(state, now, &request.model, &keys))?;
            self.model.claim_exactly(&request.model, &keys)
        };
        self.same_abandoned(&store, &model)?;
        self.same_leases(&store, &model, is_granted)
    }

    fn keys_of(&self, leases: &[Lease]) -> Agreed<Vec<EventKey>> {
        let mut keys = Vec::new();
        for lease in leases {
            let event_id = self.names.events.model_of(&lease.event_id)?;
            let key = self.model.with_state(|state| state.keys.get(&event_id).copied());
            let key = key.ok_or_else(|| {
                Difference::new(format!("event {} was granted, and is no longer stored", lease.event_id))
            })?;
            keys.push(key);
        }
        let distinct: BTreeSet<_> = keys.iter().collect();
        if distinct.len() < keys.len() {
            return Err(Difference::new(format!("one claim granted one event twice: {leases:?}")));
        }
        Ok(keys)
    }

    fn same_abandoned(&mut self, store: &Claimed, model: &Claimed) -> Agreed {
        let mut abandoned = Vec::new();
        for event_id in &store.abandoned {
            abandoned.push(self.names.events.model_of(event_id)?);
        }
        let sorted = |mut ids: Vec<EventId>| {
            ids.sort();
            ids
        };
        self.tally.count("abandoned events", abandoned.len());
        same("what the claim abandoned", &sorted(model.abandoned.clone()), &sorted(abandoned))
    }

    fn same_leases(&mut self, store: &Claimed, model: &Claimed, is_granted: bool) -> Agreed<String> {
        same("the number of leases", &model.leases.len(), &store.leases.len())?;
        let mut told = Vec::new();
        for store in &store.leases {
            let event_id = self.names.events.model_of(&store.event_id)?;
            let model = model.leases.iter().find(|lease| lease.event_id == event_id).ok_or_else(|| {
                Difference::new(format!("event {} is not its claim's to bring again", store.event_id))
            })?;
            self.names.tokens.meet(&store.token, &model.token)?;
            self.names.keys.meet(&store.key, &model.key)?;
            self.names.messages.meet(&store.message_id, &model.message_id)?;
            self.names.destinations.meet(&store.destination_id, &model.destination_id)?;
            let what = format!("the lease on {}", store.event_id);
            same(&what, &Carried::of(model, model.overdue), &Carried::of(store, model.overdue))?;
            told.push(store.event_id.as_str());
            if !is_granted {
                self.leases.push(Both { store: store.clone(), model: model.clone() });
            }
        }
        self.tally.count(if is_granted { "leases brought again" } else { "leases granted" }, told.len());
        Ok(if told.is_empty() { "nothing".to_owned() } else { told.join(", ") })
    }
}

/// An id that no other claim of the process has.
fn claim_id() -> ClaimId {
    static CLAIMS: AtomicU64 = AtomicU64::new(0);
    ClaimId::random(u128::from(CLAIMS.fetch_add(1, Ordering::Relaxed)).to_be_bytes())
}

/// What a lease carries besides its ids. Names every field, so that a new one is not forgotten here.
#[derive(Debug, PartialEq)]
struct Carried {
    destination_url: DestinationUrl,
    event_type: String,
    content_type: String,
    payload: Bytes,
    traceparent: Option<String>,
    attempts: u32,
    max_attempts: u32,
    trigger: Trigger,
    overdue: Duration,
}

impl Carried {
    fn of(lease: &Lease, expected_overdue: Duration) -> Self {
        let Lease {
            token: _,
            key: _,
            event_id: _,
            message_id: _,
            destination_id: _,
            destination_url,
            event_type,
            content_type,
            payload,
            traceparent,
            attempts,
            max_attempts,
            trigger,
            overdue,
        } = lease.clone();
        let overdue = near(overdue, expected_overdue);
        Self {
            destination_url,
            event_type,
            content_type,
            payload,
            traceparent,
            attempts,
            max_attempts,
            trigger,
            overdue,
        }
    }
}

/// Every event that is granted must be one that may be, and none may be left that would have fitted too.
fn judge(state: &State, now: Timestamp, request: &ClaimRequest, granted: &[EventKey]) -> Agreed {
    let mut room = Room { request, taken: BTreeMap::new(), total: 0, retries: 0 };
    for key in granted {
        let row = &state.rows[key];
        if let Some(reason) = why_not_claimable(state, now, request, row) {
            return Err(Difference::new(format!("event {} was granted, and {reason}", row.event_id)));
        }
        if let Some(reason) = room.why_full(row) {
            return Err(Difference::new(format!("event {} was granted beyond {reason}", row.event_id)));
        }
        room.take(row);
    }
    let left = state.rows.iter().find(|(key, row)| {
        !granted.contains(key)
            && why_not_claimable(state, now, request, row).is_none()
            && room.why_full(row).is_none()
    });
    match left {
        None => Ok(()),
        Some((_, row)) => Err(Difference::new(format!(
            "event {} was not granted, though it was claimable and there was room for it",
            row.event_id
        ))),
    }
}

fn why_not_claimable(
    state: &State,
    now: Timestamp,
    request: &ClaimRequest,
    row: &Row,
) -> Option<&'static str> {
    let is_given_up = || {
        row.lease.is_some() && Ending::after_lost_leases(row.lost_leases + 1, request.abandon_after).is_some()
    };
    if !row.is_ready(now) {
        Some("is not pending, not due, or leased")
    } else if state.is_paused(row.destination_id, now) {
        Some("its destination is paused")
    } else if is_given_up() {
        Some("had lost one lease too many")
    } else {
        None
    }
}

/// What a claim has room for.
struct Room<'a> {
    request: &'a ClaimRequest,
    taken: BTreeMap<DestinationId, usize>,
    total: usize,
    retries: usize,
}

impl Room<'_> {
    fn why_full(&self, row: &Row) -> Option<&'static str> {
        let taken = self.taken.get(&row.destination_id).copied().unwrap_or(0);
        if self.total >= self.request.limit {
            Some("the limit")
        } else if row.attempts > 0 && self.retries >= self.request.retries_max {
            Some("the retries that were allowed")
        } else if taken >= self.request.free_slots_of(row.destination_id) {
            Some("the free slots of its destination")
        } else {
            None
        }
    }

    fn take(&mut self, row: &Row) {
        *self.taken.entry(row.destination_id).or_default() += 1;
        self.total += 1;
        self.retries += usize::from(row.attempts > 0);
    }
}
