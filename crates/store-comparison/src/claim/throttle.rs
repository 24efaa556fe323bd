//! Throttles of endpoints and applications: between how many and how many more events a claim may grant.
//!
//! The store's clock may advance in real time while the model's stands still, so the store may have more tokens than the model,
//! never fewer. The upper bound follows from readings of the store's clock before and after each claim, so it holds however long a
//! claim takes.

use std::collections::BTreeMap;
use std::time::Duration;

use posthaste_domain::{
    ApplicationId, DeliveryOrder, DeliveryStatus, DestinationId, EventKey, Throttle, Timestamp,
};
use posthaste_store_memory::{Row, State};

/// The time in which an empty throttle becomes full.
const REFILL: Duration = Duration::from_secs(1);

/// Readings of the store's clock around a claim. The claim spends throttles at times between them.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClaimPeriod {
    pub(super) before: Timestamp,
    pub(super) after: Timestamp,
}

impl ClaimPeriod {
    /// Returns the greatest number of tokens that a throttle has during the claim: those before it, and those filled meanwhile.
    /// `full_at` is the earliest time at which the throttle may be full again.
    fn tokens_max(self, throttle: Throttle, full_at: Option<Timestamp>) -> usize {
        let missing = full_at.map_or(Duration::ZERO, |full_at| full_at.since(self.before)).min(REFILL);
        let filled = REFILL - missing + self.after.since(self.before);
        let tokens = filled.as_micros() * u128::from(throttle.per_second()) / REFILL.as_micros();
        usize::try_from(tokens).unwrap_or(usize::MAX)
    }
}

/// Returns whether an endpoint or an application has a throttle.
pub(super) fn has_throttles(state: &State) -> bool {
    let mut endpoints = state.destinations.values().filter_map(|destination| destination.endpoint.as_ref());
    endpoints.any(|endpoint| endpoint.throttle.is_some())
        || state.registry.applications.values().any(|row| row.application.throttle.is_some())
}

/// The earliest time at which each throttle may be full again on the store's clock, by ids of the model.
#[derive(Debug, Default)]
pub(crate) struct SpentThrottles {
    endpoints: BTreeMap<DestinationId, Timestamp>,
    applications: BTreeMap<ApplicationId, Timestamp>,
}

impl SpentThrottles {
    /// Spends the throttles of events that the store has granted, as if it had granted them at the beginning of the claim.
    pub(super) fn spend(&mut self, state: &State, granted: &[EventKey], period: ClaimPeriod) {
        let mut of_endpoints = BTreeMap::new();
        let mut of_applications = BTreeMap::new();
        for row in granted.iter().map(|key| &state.rows[key]) {
            if let Some(throttle) = endpoint_throttle(state, row) {
                of_endpoints.entry(row.destination_id).or_insert((throttle, 0)).1 += 1;
            }
            if let (Some(app), Some(throttle)) = (row.app, application_throttle(state, row)) {
                of_applications.entry(app).or_insert((throttle, 0)).1 += 1;
            }
        }
        spend_each(&mut self.endpoints, of_endpoints, period);
        spend_each(&mut self.applications, of_applications, period);
    }
}

/// Spends a number of tokens of each throttle. All at once, because each call rounds the time up.
fn spend_each<Id: Ord>(
    full_at: &mut BTreeMap<Id, Timestamp>,
    tokens: BTreeMap<Id, (Throttle, usize)>,
    period: ClaimPeriod,
) {
    for (id, (throttle, count)) in tokens {
        let spent = throttle.spend(full_at.get(&id).copied(), period.before, count);
        full_at.insert(id, spent);
    }
}

fn endpoint_throttle(state: &State, row: &Row) -> Option<Throttle> {
    state.destinations.get(&row.destination_id)?.endpoint.as_ref()?.throttle
}

fn application_throttle(state: &State, row: &Row) -> Option<Throttle> {
    state.registry.applications.get(&row.app?)?.application.throttle
}

/// Returns the destinations of pending events that are throttled or in FIFO order.
pub(super) fn limited_destinations(state: &State) -> impl Iterator<Item = DestinationId> {
    let is_fifo = |row: &Row| {
        let endpoint = state.destinations.get(&row.destination_id).and_then(|it| it.endpoint.as_ref());
        endpoint.is_some_and(|endpoint| endpoint.order == DeliveryOrder::Fifo)
    };
    let is_throttled =
        |row: &Row| endpoint_throttle(state, row).or_else(|| application_throttle(state, row)).is_some();
    let pending = state.rows.values().filter(|row| row.status == DeliveryStatus::Pending);
    pending.filter(move |row| is_fifo(row) || is_throttled(row)).map(|row| row.destination_id)
}

/// The tokens of the throttles, and the events that a claim has granted so far.
pub(super) struct ThrottleBudget<'a> {
    state: &'a State,
    spent: &'a SpentThrottles,
    /// The time of the model.
    now: Timestamp,
    /// None if there is no throttle.
    period: Option<ClaimPeriod>,
    granted: Vec<&'a Row>,
}

impl<'a> ThrottleBudget<'a> {
    pub(super) const fn new(
        state: &'a State,
        spent: &'a SpentThrottles,
        now: Timestamp,
        period: Option<ClaimPeriod>,
    ) -> Self {
        Self { state, spent, now, period, granted: Vec::new() }
    }

    /// Returns the throttle of which the store has certainly no token left, if any.
    pub(super) fn surely_exhausted(&self, row: &Row) -> Option<&'static str> {
        let period = self.period?;
        let of_endpoint = self.spent.endpoints.get(&row.destination_id).copied();
        let of_application = row.app.and_then(|app| self.spent.applications.get(&app).copied());
        self.exhausted(
            row,
            |throttle| period.tokens_max(throttle, of_endpoint),
            |throttle| period.tokens_max(throttle, of_application),
        )
    }

    /// Returns whether a throttle of the model has no token left, so that the store may leave the event.
    pub(super) fn may_be_exhausted(&self, row: &Row) -> bool {
        let state = self.state;
        let endpoint = state.destinations.get(&row.destination_id).and_then(|it| it.endpoint.as_ref());
        let application = row.app.and_then(|app| state.registry.applications.get(&app));
        let exhausted = self.exhausted(
            row,
            |throttle| throttle.available(endpoint.and_then(|it| it.spent_until), self.now),
            |throttle| throttle.available(application.and_then(|it| it.spent_until), self.now),
        );
        exhausted.is_some()
    }

    /// Returns whether the claim has granted an event of the same throttled application.
    pub(super) fn has_granted_of_application(&self, row: &Row) -> bool {
        application_throttle(self.state, row).is_some()
            && self.granted.iter().any(|other| other.app == row.app)
    }

    fn exhausted(
        &self,
        row: &Row,
        of_endpoint: impl Fn(Throttle) -> usize,
        of_application: impl Fn(Throttle) -> usize,
    ) -> Option<&'static str> {
        let to_endpoint =
            self.granted.iter().filter(|other| other.destination_id == row.destination_id).count();
        let to_application = self.granted.iter().filter(|other| other.app == row.app).count();
        if endpoint_throttle(self.state, row).is_some_and(|throttle| of_endpoint(throttle) <= to_endpoint) {
            Some("the throttle of its endpoint")
        } else if application_throttle(self.state, row).is_some_and(|it| of_application(it) <= to_application)
        {
            Some("the throttle of its application")
        } else {
            None
        }
    }

    pub(super) fn spend(&mut self, row: &'a Row) {
        self.granted.push(row);
    }
}
