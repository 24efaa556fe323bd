//! Throttles of endpoints and applications: between how many and how many more events a claim may grant.
//!
//! The store's clock may advance in real time while the model's stands still, so the store may have more tokens than the model,
//! never fewer. The upper bound follows from the times that the store's claims returned.

use std::collections::BTreeMap;
use std::time::Duration;

use posthaste_domain::{
    ApplicationId, DeliveryOrder, DeliveryStatus, DestinationId, EventKey, Throttle, Timestamp,
};
use posthaste_store_memory::{Row, State};

use crate::sequence_run::Counterparts;

/// Greatest time between the spending of a throttle and the time that the claim returns. At the rates of the sequences, less than
/// half a token is filled in it.
const SLACK: Duration = Duration::from_millis(100);

/// When each throttle is full again on the store's clock, by ids of the model.
#[derive(Debug, Default)]
pub(crate) struct SpentThrottles {
    endpoints: BTreeMap<DestinationId, Timestamp>,
    applications: BTreeMap<ApplicationId, Timestamp>,
}

impl SpentThrottles {
    /// Spends the throttles of events that the store granted at `now` on its clock.
    pub(super) fn spend(&mut self, state: &State, granted: &[EventKey], now: Timestamp) {
        for row in granted.iter().map(|key| &state.rows[key]) {
            if let Some(throttle) = endpoint_throttle(state, row) {
                let spent = self.endpoints.get(&row.destination_id).copied();
                self.endpoints.insert(row.destination_id, throttle.spend(spent, now, 1));
            }
            if let (Some(app), Some(throttle)) = (row.app, application_throttle(state, row)) {
                let spent = self.applications.get(&app).copied();
                self.applications.insert(app, throttle.spend(spent, now, 1));
            }
        }
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
    times: &'a Counterparts<Timestamp>,
    granted: Vec<&'a Row>,
}

impl<'a> ThrottleBudget<'a> {
    pub(super) const fn new(
        state: &'a State,
        spent: &'a SpentThrottles,
        times: &'a Counterparts<Timestamp>,
    ) -> Self {
        Self { state, spent, times, granted: Vec::new() }
    }

    /// Returns the throttle of which the store has certainly no token left, if any.
    pub(super) fn surely_exhausted(&self, row: &Row) -> Option<&'static str> {
        let now = self.times.store.after(SLACK);
        self.exhausted(
            row,
            |throttle| throttle.available(self.spent.endpoints.get(&row.destination_id).copied(), now),
            |throttle| {
                throttle.available(row.app.and_then(|app| self.spent.applications.get(&app).copied()), now)
            },
        )
    }

    /// Returns whether a throttle of the model has no token left, so that the store may leave the event.
    pub(super) fn may_be_exhausted(&self, row: &Row) -> bool {
        let state = self.state;
        let endpoint = state.destinations.get(&row.destination_id).and_then(|it| it.endpoint.as_ref());
        let application = row.app.and_then(|app| state.registry.applications.get(&app));
        let exhausted = self.exhausted(
            row,
            |throttle| throttle.available(endpoint.and_then(|it| it.spent_until), self.times.model),
            |throttle| throttle.available(application.and_then(|it| it.spent_until), self.times.model),
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
