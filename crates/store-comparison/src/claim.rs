//! Claims: the store chooses events, the model checks the choice and then grants the same events.

mod choice;
mod fifo;
mod payloads;
mod throttle;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use posthaste_domain::{
    ClaimId, DestinationId, DestinationUrl, EventId, EventKey, Lease, Timestamp, Trigger, WorkerId,
};
use posthaste_store::{ClaimRequest, ClaimResponse, FixedSlots, PaceSlots, Store as _};

use crate::clock_offset::snap_to_model;
use crate::difference::{ComparisonResult, Difference, compare};
use crate::durations::RESUMED_WITHIN;
use crate::operation::{ClaimSpec, DestinationChoice, Handle, RecencyIndex};
use crate::sequence_run::{Counterparts, SequenceRun};

pub(crate) use throttle::SpentThrottles;

use choice::{ChoiceCheck, LeftByBytes};
use throttle::ClaimPeriod;

/// How often the store is asked for its time.
const HEALTH_TRIES_MAX: usize = 20;

impl SequenceRun<'_> {
    pub(crate) async fn claim(&mut self, handle: Handle, claim: &ClaimSpec) -> ComparisonResult<String> {
        let slots = |of: fn(Counterparts<DestinationId>) -> DestinationId| {
            let id = |destination: DestinationChoice| of(self.destination(destination));
            FixedSlots {
                destinations: claim.destination_slots.iter().map(|(to, slots)| (id(*to), *slots)).collect(),
                per_host: claim.per_host,
                paces: claim.paces.iter().map(|(to, pace)| (to.host().to_owned(), *pace)).collect(),
                known: claim.known.iter().map(|to| id(*to)).collect(),
                ..FixedSlots::per_destination(claim.per_destination)
            }
            .share()
        };
        let model = ClaimRequest {
            id: new_claim_id(),
            owner: WorkerId::new(claim.owner.name()).expect("visible ASCII"),
            lease: claim.lease,
            limit: claim.limit,
            retries_max: claim.retries_max,
            slots: slots(|ids| ids.model),
            pace_slots: PaceSlots::new(|pace| claim.pace_slots[pace as usize]),
            payload_bytes_max: claim.payload_bytes_max,
            event_payload_bytes_max: claim.event_payload_bytes_max,
            inline_payload_bytes_max: claim.inline_payload_bytes_max,
            abandon_after: claim.abandon_after,
            resumed_within: RESUMED_WITHIN,
        };
        let request =
            Counterparts { store: ClaimRequest { slots: slots(|ids| ids.store), ..model.clone() }, model };
        self.claims.push(request.clone());
        self.claim_on_both(handle, &request).await
    }

    pub(crate) async fn repeat_claim(
        &mut self,
        handle: Handle,
        claim: RecencyIndex,
        limit: usize,
        payload_bytes_max: Option<usize>,
    ) -> ComparisonResult<String> {
        let Some(Counterparts { store, model }) = claim.pick(&self.claims).cloned() else {
            return Ok(String::new());
        };
        let repeat = |request: ClaimRequest| ClaimRequest {
            limit,
            payload_bytes_max: payload_bytes_max
                .map_or(request.payload_bytes_max, |bytes| bytes.min(request.payload_bytes_max)),
            ..request
        };
        let request = Counterparts { store: repeat(store), model: repeat(model) };
        self.tally.add("repeated claims", 1);
        self.claim_on_both(handle, &request).await
    }

    /// Claims on the store, then lets the model grant the same events.
    async fn claim_on_both(
        &mut self,
        handle: Handle,
        request: &Counterparts<ClaimRequest>,
    ) -> ComparisonResult<String> {
        let is_throttled = self.model.with_state(|state| throttle::has_throttles(state));
        let before = if is_throttled { Some(self.store_time(handle).await?) } else { None };
        let store = self.store(handle).claim(&request.store).await;
        let store = store.map_err(|error| Difference::failed("claim", &error))?;
        let period = match before {
            Some(before) => Some(ClaimPeriod { before, after: self.store_time(handle).await? }),
            None => None,
        };
        let keys = self.model_keys(&store.leases)?;
        let now = self.now();
        let is_repeated = self.model.with_state(|state| {
            state
                .rows
                .values()
                .any(|row| row.lease.as_ref().is_some_and(|lease| lease.claim == request.model.id))
        });
        let model = if is_repeated {
            self.model.claim(&request.model).await.expect("the model is always up")
        } else {
            let is_limited_by_bytes = store.is_limited_by_bytes;
            self.tally.add("claims limited by bytes", usize::from(is_limited_by_bytes));
            let mut kept_back = BTreeSet::new();
            for destination in &store.kept_back {
                kept_back.insert(self.ids.destinations.model_of(destination)?);
            }
            let check = ChoiceCheck {
                request: &request.model,
                now,
                period,
                spent: &self.throttles,
                left_by_bytes: LeftByBytes { is_limited_by_bytes, kept_back },
                may_skip: if self.allowed.skipped_limits { Some(&self.limits_read) } else { None },
            };
            self.model.with_state(|state| check.check(state, &keys))?;
            self.model.with_state(|state| {
                if let Some(period) = period {
                    self.throttles.spend(state, &keys, period);
                }
                self.limits_read.extend(throttle::limited_destinations(state));
            });
            self.model.claim_exactly(&request.model, &keys)
        };
        if is_repeated {
            let what = "whether the repeated claim released leases";
            compare(what, &model.is_limited_by_bytes, &store.is_limited_by_bytes)?;
            self.tally.add("repeated claims limited by bytes", usize::from(model.is_limited_by_bytes));
        }
        self.compare_abandoned(&store, &model)?;
        self.compare_resumed(&store, &model)?;
        self.compare_probes(&store, &model)?;
        self.compare_updated(&store, &model)?;
        self.compare_granted(&store.leases, &model.leases, is_repeated)
    }

    /// Reads the store's clock. On a slow machine, a healthy store may report that it was not ready in time.
    async fn store_time(&self, handle: Handle) -> ComparisonResult<Timestamp> {
        let mut tries = 1;
        loop {
            match self.store(handle).health().await {
                Ok(health) => return Ok(health.now),
                Err(error) if error.is_transient() && tries < HEALTH_TRIES_MAX => tries += 1,
                Err(error) => return Err(Difference::failed("health", &error)),
            }
        }
    }

    /// Returns the model's keys of the leased events. Fails if an event is unknown or granted twice.
    pub(crate) fn model_keys(&self, leases: &[Lease]) -> ComparisonResult<Vec<EventKey>> {
        let mut keys = Vec::new();
        for lease in leases {
            let event_id = self.ids.events.model_of(&lease.event_id)?;
            let key = self.model.with_state(|state| state.keys.get(&event_id).copied());
            let key = key.ok_or_else(|| {
                Difference::new(format!("event {} was granted, but the model has removed it", lease.event_id))
            })?;
            keys.push(key);
        }
        let distinct: BTreeSet<_> = keys.iter().collect();
        if distinct.len() < keys.len() {
            return Err(Difference::new(format!("one claim granted one event twice: {leases:?}")));
        }
        Ok(keys)
    }

    fn compare_abandoned(&mut self, store: &ClaimResponse, model: &ClaimResponse) -> ComparisonResult {
        let mut abandoned = Vec::new();
        for event_id in &store.abandoned {
            abandoned.push(self.ids.events.model_of(event_id)?);
        }
        let sorted = |mut ids: Vec<EventId>| {
            ids.sort();
            ids
        };
        self.tally.add("abandoned events", abandoned.len());
        compare("the abandoned events", &sorted(model.abandoned.clone()), &sorted(abandoned))
    }

    fn compare_resumed(&self, store: &ClaimResponse, model: &ClaimResponse) -> ComparisonResult {
        let mut resumed = BTreeSet::new();
        for store in &store.resumed {
            resumed.insert(self.ids.destinations.model_of(&store.destination)?);
        }
        let expected: BTreeSet<DestinationId> = model.resumed.iter().map(|it| it.destination).collect();
        compare("the resumed destinations", &expected, &resumed)
    }

    /// Compares the destinations for which an operator has asked for a probe recently.
    fn compare_probes(&self, store: &ClaimResponse, model: &ClaimResponse) -> ComparisonResult {
        let mut probes = BTreeSet::new();
        for store in &store.probes {
            probes.insert(self.ids.destinations.model_of(&store.destination)?);
        }
        let expected: BTreeSet<DestinationId> = model.probes.iter().map(|it| it.destination).collect();
        compare("the requested probes", &expected, &probes)
    }

    /// Compares the destinations whose URL, keys or headers have changed recently.
    fn compare_updated(&self, store: &ClaimResponse, model: &ClaimResponse) -> ComparisonResult {
        let mut updated = BTreeSet::new();
        for store in &store.updated {
            updated.insert(self.ids.destinations.model_of(store)?);
        }
        let expected: BTreeSet<DestinationId> = model.updated.iter().copied().collect();
        compare("the updated destinations", &expected, &updated)
    }

    /// Compares the leases that a claim or an enqueue granted.
    pub(crate) fn compare_granted(
        &mut self,
        store: &[Lease],
        model: &[Lease],
        is_repeated: bool,
    ) -> ComparisonResult<String> {
        compare("the number of leases", &model.len(), &store.len())?;
        let mut granted = Vec::new();
        for store in store {
            let event_id = self.ids.events.model_of(&store.event_id)?;
            let model = model.iter().find(|lease| lease.event_id == event_id).ok_or_else(|| {
                Difference::new(format!(
                    "the repeated claim returned event {}, which it does not hold",
                    store.event_id
                ))
            })?;
            self.ids.tokens.pair(&store.token, &model.token)?;
            self.ids.keys.pair(&store.key, &model.key)?;
            self.ids.messages.pair(&store.message_id, &model.message_id)?;
            self.ids.destinations.pair(&store.destination_id, &model.destination_id)?;
            let what = format!("the lease on {}", store.event_id);
            compare(
                &what,
                &LeaseContent::from_lease(model, model.overdue),
                &LeaseContent::from_lease(store, model.overdue),
            )?;
            granted.push(store.event_id.as_str());
            if !is_repeated {
                self.leases.push(Counterparts { store: store.clone(), model: model.clone() });
            }
        }
        self.tally.add(if is_repeated { "leases returned again" } else { "leases granted" }, granted.len());
        Ok(if granted.is_empty() { "nothing".to_owned() } else { granted.join(", ") })
    }
}

/// Returns a claim id that is unique in this process.
fn new_claim_id() -> ClaimId {
    static CLAIMS: AtomicU64 = AtomicU64::new(0);
    ClaimId::random(u128::from(CLAIMS.fetch_add(1, Ordering::Relaxed)).to_be_bytes())
}

/// The fields of a lease besides its ids. `from_lease` destructures all fields, so that a new field cannot be forgotten here.
#[derive(Debug, PartialEq)]
struct LeaseContent {
    /// Whether the receiver sees the id of the event, and that of the message.
    sends_event_id: bool,
    sends_message_id: bool,
    destination_url: DestinationUrl,
    profile_version: i64,
    event_type: String,
    content_type: String,
    payload_bytes: usize,
    /// The payload, if it came with the lease.
    payload: Option<Bytes>,
    traceparent: Option<String>,
    attempts: u32,
    max_attempts: u32,
    trigger: Trigger,
    overdue: Duration,
}

impl LeaseContent {
    fn from_lease(lease: &Lease, expected_overdue: Duration) -> Self {
        let Lease {
            token: _,
            key: _,
            event_id,
            wire_id,
            message_id,
            destination_id: _,
            destination_url,
            profile_version,
            event_type,
            content_type,
            payload,
            traceparent,
            attempts,
            max_attempts,
            trigger,
            overdue,
        } = lease.clone();
        let loaded = (!payload.is_stored()).then(|| payload.expect_loaded().clone());
        let overdue = snap_to_model(overdue, expected_overdue);
        Self {
            sends_event_id: wire_id == event_id,
            sends_message_id: wire_id == EventId::from_message(message_id),
            destination_url,
            profile_version,
            event_type,
            content_type,
            payload_bytes: payload.len(),
            payload: loaded,
            traceparent,
            attempts,
            max_attempts,
            trigger,
            overdue,
        }
    }
}
