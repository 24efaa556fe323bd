//! Bugs of the registry: fan-out, lines, throttles, keys, deletions and lists.

use std::sync::Arc;

use async_trait::async_trait;
use posthaste_domain::DeliveryOrder;
use posthaste_store::{
    ClaimRequest, ClaimResponse, Endpoints, LayeredStore, Messages, Store, StoreError, StoreLayer,
};
use posthaste_store_memory::MemoryStore;

use super::registry_faults::{EndpointFault, FaultyEndpoints, FaultyMessages, MessageFault};

resource_bug!(fan_out_skips_one, messages: Messages, FaultyMessages, MessageFault::FanOutSkipsOne);
resource_bug!(fan_out_reaches_disabled, messages: Messages, FaultyMessages, MessageFault::FanOutReachesDisabled);
resource_bug!(pages_skip_one, messages: Messages, FaultyMessages, MessageFault::PagesSkipOne);
resource_bug!(rotation_drops_the_old_key, endpoints: Endpoints, FaultyEndpoints, EndpointFault::RotationDropsTheOldKey);
resource_bug!(delete_keeps_events, endpoints: Endpoints, FaultyEndpoints, EndpointFault::DeleteKeepsEvents);

store_bug! {
    /// Grants the events of an endpoint in FIFO order as if it had any order.
    claim_ignores_lines;

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        let set_orders = |orders: Option<Vec<DeliveryOrder>>| {
            self.memory.with_state(|state| {
                let endpoints = state.destinations.values_mut().filter_map(|it| it.endpoint.as_mut());
                let mut orders = orders.into_iter().flatten();
                let set = |order: &mut DeliveryOrder| std::mem::replace(order, orders.next().unwrap_or(DeliveryOrder::Any));
                endpoints.map(|endpoint| &mut endpoint.order).map(set).collect::<Vec<_>>()
            })
        };
        let orders = set_orders(None);
        let claimed = self.memory.claim(request).await;
        set_orders(Some(orders));
        claimed
    }
}

store_bug! {
    throttles_are_not_spent;

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        let claimed = self.memory.claim(request).await;
        self.memory.with_state(|state| {
            for endpoint in state.destinations.values_mut().filter_map(|it| it.endpoint.as_mut()) {
                endpoint.spent_until = None;
            }
        });
        claimed
    }
}

store_bug! {
    application_throttles_are_not_spent;

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        let claimed = self.memory.claim(request).await;
        self.memory.with_state(|state| {
            for application in state.registry.applications.values_mut() {
                application.spent_until = None;
            }
        });
        claimed
    }
}
