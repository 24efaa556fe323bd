//! Throttles of endpoints and applications: a claim grants no more events than they allow, and spends them.

use std::collections::BTreeMap;

use posthaste_domain::{ApplicationId, DestinationId, EventKey, Timestamp};

use crate::state::{Row, State};

/// The events that the throttles let a claim in progress still grant.
pub(super) struct Budget {
    endpoints: BTreeMap<DestinationId, usize>,
    applications: BTreeMap<ApplicationId, usize>,
}

impl Budget {
    pub(super) fn new(state: &State, now: Timestamp) -> Self {
        let endpoints = state.destinations.iter().filter_map(|(id, destination)| {
            let endpoint = destination.endpoint.as_ref()?;
            Some((*id, endpoint.throttle?.available(endpoint.spent_until, now)))
        });
        let applications =
            state.registry.applications.iter().filter_map(|(id, row)| {
                Some((*id, row.application.throttle?.available(row.spent_until, now)))
            });
        Self { endpoints: endpoints.collect(), applications: applications.collect() }
    }

    /// Returns whether the throttles allow one more event like this one.
    pub(super) fn has_token(&self, row: &Row) -> bool {
        let of_endpoint = self.endpoints.get(&row.destination_id);
        let of_application = row.app.and_then(|app| self.applications.get(&app));
        of_endpoint.into_iter().chain(of_application).all(|tokens| *tokens > 0)
    }

    /// Counts a granted event.
    pub(super) fn take(&mut self, row: &Row) {
        let of_application = row.app.and_then(|app| self.applications.get_mut(&app));
        for tokens in self.endpoints.get_mut(&row.destination_id).into_iter().chain(of_application) {
            *tokens = tokens.saturating_sub(1);
        }
    }
}

/// Spends the throttles of events that a claim grants.
pub(super) fn spend(state: &mut State, now: Timestamp, keys: &[EventKey]) {
    for key in keys {
        let (destination, app) = (state.rows[key].destination_id, state.rows[key].app);
        let endpoint = state.destinations.get_mut(&destination).and_then(|it| it.endpoint.as_mut());
        if let Some(endpoint) = endpoint
            && let Some(throttle) = endpoint.throttle
        {
            endpoint.spent_until = Some(throttle.spend(endpoint.spent_until, now, 1));
        }
        if let Some(row) = app.and_then(|app| state.registry.applications.get_mut(&app))
            && let Some(throttle) = row.application.throttle
        {
            row.spent_until = Some(throttle.spend(row.spent_until, now, 1));
        }
    }
}
