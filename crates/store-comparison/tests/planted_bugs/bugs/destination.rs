//! Bugs of destinations: pauses, resumes and circuits.

use std::sync::Arc;

use async_trait::async_trait;
use posthaste_domain::DestinationId;
use posthaste_store::{
    ClaimRequest, ClaimResponse, DestinationStatus, LayeredStore, Overview, PauseRequest, PendingCount,
    Store, StoreError, StoreLayer,
};
use posthaste_store_memory::MemoryStore;

store_bug! {
    resume_keeps_circuits;

    async fn resume_destination(&self, id: DestinationId, actor: &str) -> Result<DestinationStatus, StoreError> {
        let circuits = |memory: &MemoryStore| {
            memory.with_state(|state| state.destinations.get(&id).map(|it| it.circuits.clone()))
        };
        let before = circuits(&self.memory);
        self.memory.resume_destination(id, actor).await?;
        if let Some(before) = before {
            self.memory.with_state(|state| state.destinations.get_mut(&id).map(|it| it.circuits = before));
        }
        self.memory.destination_status(id).await
    }
}

store_bug! {
    resumes_are_not_listed;

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        Ok(ClaimResponse { resumed: Vec::new(), ..self.memory.claim(request).await? })
    }
}

store_bug! {
    /// Lets the operator's pause end that of the receiver.
    pause_replaces_the_receivers;

    async fn pause_destination(
        &self,
        id: DestinationId,
        pause: &PauseRequest,
    ) -> Result<DestinationStatus, StoreError> {
        self.memory.pause_destination(id, pause).await?;
        self.memory.with_state(|state| state.destinations.get_mut(&id).map(|it| it.receiver_pause = None));
        self.memory.destination_status(id).await
    }
}

store_bug! {
    pauses_are_not_audited;

    async fn pause_destination(
        &self,
        id: DestinationId,
        pause: &PauseRequest,
    ) -> Result<DestinationStatus, StoreError> {
        let paused = self.memory.pause_destination(id, pause).await?;
        self.memory.with_state(|state| state.destination_audit.pop());
        Ok(paused)
    }
}

store_bug! {
    held_events_are_not_counted;

    async fn overview(&self) -> Result<Overview, StoreError> {
        Ok(Overview { held: PendingCount::default(), ..self.memory.overview().await? })
    }
}
