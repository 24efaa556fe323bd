//! Stores and engines with one known bug each in the registry: in fan-out, disabled endpoints, rotations, lines or throttles.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use posthaste_domain::{
    ApplicationId, BulkId, DeliveryOrder, DeliveryStatus, DestinationId, EndpointChange, EndpointRef,
    EventId, EventKey, Lease, Timestamp, WorkerId,
};
use posthaste_engine::Sender;
use posthaste_sim::{
    ActivityLayer, ApplicationsLayer, BulkLayer, EndpointsLayer, MessagesLayer, OperationsLayer, PlantedBug,
    layer_registry,
};
use posthaste_store::{
    Advance, AppScope, BulkOperation, ClaimRequest, ClaimResponse, DestinationKey, DestinationProfile,
    Endpoint, LayeredStore, OperationState, OperatorPause, Publication, PublishRequest, Store, StoreError,
    StoreLayer,
};
use posthaste_store_memory::{Destination, EndpointRow, MemoryStore, Row, State};

/// Defines a bug of a store's registry: its name, its own state, and the calls that it changes.
macro_rules! registry_bug {
    (
        $(#[$doc:meta])* $name:ident $(state $kept:ty)?;
        $(store { $($store:item)* })?
        $(endpoints { $($endpoints:item)* })?
        $(messages { $($messages:item)* })?
        $(bulk { $($bulk:item)* })?
    ) => {
        $(#[$doc])*
        pub(crate) struct $name;

        impl PlantedBug for $name {
            fn store(&self, memory: MemoryStore) -> Arc<dyn Store> {
                #[derive(Clone)]
                struct Bug {
                    memory: MemoryStore,
                    $(state: Arc<$kept>,)?
                }

                #[async_trait]
                impl StoreLayer for Bug {
                    fn inner(&self) -> &dyn Store {
                        &self.memory
                    }
                    $($($store)*)?
                }

                impl ApplicationsLayer for Bug {}

                #[async_trait]
                impl EndpointsLayer for Bug {
                    $($($endpoints)*)?
                }

                #[async_trait]
                impl MessagesLayer for Bug {
                    $($($messages)*)?
                }

                impl OperationsLayer for Bug {}

                #[async_trait]
                impl BulkLayer for Bug {
                    $($($bulk)*)?
                }

                impl ActivityLayer for Bug {}

                layer_registry(Bug { memory, $(state: Arc::<$kept>::default(),)? })
            }
        }
    };
}

/// Changes every endpoint, and returns them as they were before.
fn change_endpoints(
    memory: &MemoryStore,
    change: impl Fn(&mut EndpointRow),
) -> BTreeMap<DestinationId, EndpointRow> {
    memory.with_state(|state| {
        let mut before = BTreeMap::new();
        for (id, destination) in &mut state.destinations {
            if let Some(endpoint) = &mut destination.endpoint {
                before.insert(*id, endpoint.clone());
                change(endpoint);
            }
        }
        before
    })
}

/// Gives every endpoint one field of its former self back.
fn restore_endpoints(
    memory: &MemoryStore,
    before: &BTreeMap<DestinationId, EndpointRow>,
    restore: impl Fn(&mut EndpointRow, &EndpointRow),
) {
    memory.with_state(|state| {
        for (id, before) in before {
            let endpoint =
                state.destinations.get_mut(id).and_then(|destination| destination.endpoint.as_mut());
            restore(endpoint.expect("endpoints stay"), before);
        }
    });
}

registry_bug! {
    /// Publishes a repeated request again, because it keeps no answers.
    PublishForgetsAnswers;

    messages {
        async fn publish(&self, request: &PublishRequest) -> Result<Publication, StoreError> {
            self.memory.messages().publish(&PublishRequest { answer: None, ..request.clone() }).await
        }
    }
}

registry_bug! {
    /// Sends messages to endpoints whatever their channels.
    PublishIgnoresChannels;

    messages {
        async fn publish(&self, request: &PublishRequest) -> Result<Publication, StoreError> {
            let before = change_endpoints(&self.memory, |endpoint| endpoint.subscription.channels = None);
            let published = self.memory.messages().publish(request).await;
            restore_endpoints(&self.memory, &before, |endpoint, before| {
                endpoint.subscription.clone_from(&before.subscription);
            });
            published
        }
    }
}

registry_bug! {
    /// Does not see the endpoint that was created last, like a cache of subscriptions.
    PublishMissesTheNewestEndpoint;

    messages {
        async fn publish(&self, request: &PublishRequest) -> Result<Publication, StoreError> {
            let newest = self.memory.with_state(|state| {
                let (_, newest) = state.destinations.iter_mut().rfind(|(_, it)| it.endpoint.is_some())?;
                newest.endpoint.take()
            });
            let published = self.memory.messages().publish(request).await;
            self.memory.with_state(|state| {
                let hidden = state.destinations.values_mut().rfind(|it| it.profile_version > 0);
                if let (Some(destination), Some(newest)) = (hidden, newest) {
                    destination.endpoint = Some(newest);
                }
            });
            published
        }
    }
}

registry_bug! {
    /// Claims the events of disabled endpoints.
    ClaimIgnoresDisabledEndpoints;

    store {
        async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
            let before = change_endpoints(&self.memory, |endpoint| endpoint.disabled = None);
            let claimed = self.memory.claim(request).await;
            restore_endpoints(&self.memory, &before, |endpoint, before| endpoint.disabled = before.disabled);
            claimed
        }
    }
}

registry_bug! {
    /// Cancels the events of an endpoint that is disabled, instead of holding them.
    DisablingCancelsEvents;

    endpoints {
        async fn update(&self, scope: AppScope<'_>, endpoint: &EndpointRef, change: &EndpointChange, actor: &str) -> Result<Endpoint, StoreError> {
            let updated = self.memory.endpoints().update(scope, endpoint, change, actor).await?;
            let is_of_endpoint = |row: &&Row| {
                row.destination_id == updated.destination() && row.status == DeliveryStatus::Pending
            };
            let pending: Vec<EventId> = self.memory.with_state(|state| {
                state.rows.values().filter(is_of_endpoint).map(|row| row.event_id.clone()).collect()
            });
            for event_id in pending.iter().filter(|_| updated.disabled.is_some()) {
                self.memory.cancel(event_id, actor.into(), None).await?;
            }
            Ok(updated)
        }
    }
}

registry_bug! {
    /// Grants no lease on events of an endpoint that was enabled after it had been disabled.
    EnablingLeavesEventsHeld state Mutex<BTreeSet<DestinationId>>;

    store {
        async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
            let held = self.state.lock().expect("one thread").clone();
            let before: BTreeMap<DestinationId, Option<OperatorPause>> = self.memory.with_state(|state| {
                let held = held.iter().filter_map(|id| Some((*id, state.destinations.get(id)?.clone())));
                let held: Vec<(DestinationId, Destination)> = held.collect();
                held.into_iter().map(|(id, destination)| {
                    let at = destination.created_at;
                    let pause = OperatorPause { actor: "bug".to_owned(), at, until: None, reason: None };
                    state.destinations.get_mut(&id).expect("just found").operator_pause = Some(pause);
                    (id, destination.operator_pause)
                }).collect()
            });
            let claimed = self.memory.claim(request).await;
            self.memory.with_state(|state| {
                for (id, pause) in before {
                    state.destinations.get_mut(&id).expect("just found").operator_pause = pause;
                }
            });
            claimed
        }
    }

    endpoints {
        async fn update(&self, scope: AppScope<'_>, endpoint: &EndpointRef, change: &EndpointChange, actor: &str) -> Result<Endpoint, StoreError> {
            let updated = self.memory.endpoints().update(scope, endpoint, change, actor).await?;
            if change.is_disabled == Some(false) {
                self.state.lock().expect("one thread").insert(updated.destination());
            }
            Ok(updated)
        }
    }
}

registry_bug! {
    /// Returns the newest key of an endpoint alone, although its predecessor is still valid.
    OnlyTheNewestKeySigns;

    endpoints {
        async fn profiles(&self, destinations: &[DestinationId]) -> Result<Vec<DestinationProfile>, StoreError> {
            let mut profiles = self.memory.endpoints().profiles(destinations).await?;
            profiles.iter_mut().for_each(|profile| profile.keys.truncate(1));
            Ok(profiles)
        }
    }
}

registry_bug! {
    /// Returns keys that have retired.
    RetiredKeysSign state Mutex<BTreeMap<DestinationId, Vec<DestinationKey>>>;

    endpoints {
        async fn profiles(&self, destinations: &[DestinationId]) -> Result<Vec<DestinationProfile>, StoreError> {
            const KEYS_MAX: usize = 4;
            let mut profiles = self.memory.endpoints().profiles(destinations).await?;
            let mut seen = self.state.lock().expect("one thread");
            for profile in &mut profiles {
                let seen = seen.entry(profile.destination).or_default();
                let is_new = |key: &&DestinationKey| seen.iter().all(|other| other.sealed != key.sealed);
                let new: Vec<DestinationKey> = profile.keys.iter().filter(is_new).cloned().collect();
                seen.splice(0..0, new.into_iter().map(|key| DestinationKey { retires_at: None, ..key }));
                profile.keys = seen.iter().take(KEYS_MAX).cloned().collect();
            }
            Ok(profiles)
        }
    }
}

registry_bug! {
    /// Claims the events of FIFO endpoints in any order.
    ClaimIgnoresLines;

    store {
        async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
            let before = change_endpoints(&self.memory, |endpoint| endpoint.order = DeliveryOrder::Any);
            let claimed = self.memory.claim(request).await;
            restore_endpoints(&self.memory, &before, |endpoint, before| endpoint.order = before.order);
            claimed
        }
    }
}

registry_bug! {
    /// Lets the events of a line pass one that waits for its retry.
    RetriesLoseTheirPosition;

    store {
        async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
            let waits = |row: &Row| {
                row.status == DeliveryStatus::Pending
                    && row.lease.is_none()
                    && row.attempts > 0
                    && row.next_attempt_at > Some(row.updated_at)
            };
            let hidden: Vec<(EventKey, Row)> = self.memory.with_state(|state| {
                let (waiting, others): (BTreeMap<_, _>, BTreeMap<_, _>) =
                    std::mem::take(&mut state.rows).into_iter().partition(|(_, row)| waits(row));
                state.rows = others;
                waiting.into_iter().collect()
            });
            let claimed = self.memory.claim(request).await;
            self.memory.with_state(|state| state.rows.extend(hidden));
            claimed
        }
    }
}

/// When the throttles of endpoints and applications are full again.
#[derive(Clone, Default)]
struct Throttles {
    endpoints: BTreeMap<DestinationId, Option<Timestamp>>,
    applications: BTreeMap<ApplicationId, Option<Timestamp>>,
}

impl Throttles {
    /// Reads the throttles of a store.
    fn read(state: &State) -> Self {
        let endpoints = state.destinations.iter().filter_map(|(id, it)| Some((*id, it.endpoint.as_ref()?)));
        let applications = state.registry.applications.iter();
        Self {
            endpoints: endpoints.map(|(id, endpoint)| (id, endpoint.spent_until)).collect(),
            applications: applications.map(|(id, row)| (*id, row.spent_until)).collect(),
        }
    }

    /// Replaces the throttles of a store. Those that are not known here are full.
    fn write(&self, state: &mut State) {
        for (id, destination) in &mut state.destinations {
            if let Some(endpoint) = &mut destination.endpoint {
                endpoint.spent_until = self.endpoints.get(id).copied().flatten();
            }
        }
        for (id, row) in &mut state.registry.applications {
            row.spent_until = self.applications.get(id).copied().flatten();
        }
    }
}

registry_bug! {
    /// Counts the leases of each worker apart, so that two workers get twice the rate.
    ThrottlesArePerWorker state Mutex<BTreeMap<WorkerId, Throttles>>;

    store {
        async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
            let own = self.state.lock().expect("one thread").get(&request.owner).cloned().unwrap_or_default();
            self.memory.with_state(|state| own.write(state));
            let claimed = self.memory.claim(request).await;
            let spent = self.memory.with_state(|state| Throttles::read(state));
            self.state.lock().expect("one thread").insert(request.owner.clone(), spent);
            claimed
        }
    }
}

/// Never learns of a rotation: keeps the version of the keys that it read first.
pub(crate) struct RotationsAreIgnored;

impl PlantedBug for RotationsAreIgnored {
    fn engine(&self, store: Arc<dyn Store>, sender: Arc<dyn Sender>) -> (Arc<dyn Store>, Arc<dyn Sender>) {
        (Arc::new(LayeredStore(OldVersions(store))), sender)
    }
}

struct OldVersions(Arc<dyn Store>);

#[async_trait]
impl StoreLayer for OldVersions {
    fn inner(&self) -> &dyn Store {
        &*self.0
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        let claimed = self.0.claim(request).await?;
        let first_version = |lease: Lease| Lease { profile_version: lease.profile_version.min(1), ..lease };
        let leases = claimed.leases.into_iter().map(first_version).collect();
        Ok(ClaimResponse { leases, updated: Vec::new(), ..claimed })
    }
}

registry_bug! {
    /// Carries a stopped bulk operation on.
    BulkIgnoresStop;
    bulk {
        async fn stop(&self, id: BulkId, actor: &str) -> Result<BulkOperation, StoreError> {
            let stopped = self.memory.bulk().stop(id, actor).await?;
            self.memory.with_state(|state| {
                if let Some(row) = state.bulk.operations.get_mut(&id) {
                    row.running.operation.state = OperationState::Running;
                }
            });
            Ok(stopped)
        }
    }
}

registry_bug! {
    /// Starts every step of a bulk operation at the first dead letter, and selects also events that failed after its start.
    BulkStartsOver;
    bulk {
        async fn advance(&self, rows_max: usize) -> Result<Advance, StoreError> {
            self.memory.with_state(|state| {
                for row in state.bulk.operations.values_mut() {
                    row.running.cursor = 0;
                    row.running.operation.filter.until = None;
                }
            });
            self.memory.bulk().advance(rows_max).await
        }
    }
}
