//! Producers of tenants: they publish messages in bursts of concurrent requests.

use std::sync::Arc;

use posthaste_domain::{MessageSpec, NewMessage};
use posthaste_store::{Publication, PublishRequest, StoreError};
use tokio::task::JoinSet;

use super::request::{Served, slot};
use super::{CHANNELS, EVENT_TYPES, Tenants};
use crate::FaultInjection;
use crate::client::{PAYLOAD_BYTES_MAX, POISON, payload};
use crate::random::SeededRandom;
use crate::time::sleep;

/// Publishes all messages of the scenario during the fault phase.
pub(crate) async fn publish_all(tenants: Arc<Tenants>, seed: u64) {
    let random = SeededRandom::new(seed, 10);
    let scenario = &tenants.world.scenario;
    let count = scenario.registry.messages;
    let is_poisoned = scenario.fault_injection == FaultInjection::ThenRecovery && random.chance(300);
    let poisoned = random.index(count.max(1));
    let pace = u64::try_from(scenario.fault_duration.as_millis()).unwrap_or(u64::MAX) / count.max(1) as u64;
    let mut producers = JoinSet::new();
    let mut published = 0;
    while published < count {
        let burst = (random.index(10) + 1).min(count - published);
        for number in published..published + burst {
            let application = random.index(scenario.registry.applications);
            let kind = if is_poisoned && number == poisoned { POISON } else { b"message" };
            let message = tenants.message(&random, kind, number);
            producers.spawn(Arc::clone(&tenants).publish(application, message));
        }
        published += burst;
        sleep(random.millis(0..2 * pace * burst as u64 + 1)).await;
    }
    while producers.join_next().await.is_some() {}
}

impl Tenants {
    fn message(&self, random: &SeededRandom, kind: &[u8], number: usize) -> NewMessage {
        let kind = std::str::from_utf8(kind).expect("kinds of payloads are ASCII");
        let types = [EVENT_TYPES[0], EVENT_TYPES[1], EVENT_TYPES[2], "unregistered"];
        let channels = || vec![random.pick(&CHANNELS).to_owned(), random.pick(&CHANNELS).to_owned()];
        let spec = MessageSpec {
            event_type: random.pick(&types).to_owned(),
            payload: payload(kind, number),
            // Half of the producers rely on an id of their own, the others on an idempotency key.
            uid: random.chance(500).then(|| format!("order-{number}")),
            channels: random.chance(600).then(channels),
            deliver_in: if random.chance(100) { random.millis(1_000..60_000) } else { Default::default() },
            max_attempts: random
                .chance(300)
                .then(|| u32::try_from(random.in_range(1..8)).expect("at most 7")),
            ..MessageSpec::default()
        };
        let default_max_attempts = self.world.scenario.settings.policy.max_attempts();
        NewMessage::accept(spec, PAYLOAD_BYTES_MAX, default_max_attempts).expect("a valid message")
    }

    /// Publishes a message. If the response is lost, the producer publishes it again.
    async fn publish(self: Arc<Self>, application: usize, message: NewMessage) {
        let (app, payload) = (self.applications[application].clone(), message.payload.clone());
        let has_uid = message.uid.is_some();
        let slot = slot(self.next_number(), |published: &Publication| {
            i64::try_from(published.event_count).unwrap_or(i64::MAX)
        });
        let key = slot.key;
        let answer = (!has_uid).then_some(slot);
        let request = PublishRequest { answer, ..PublishRequest::new(self.org.clone(), app, message) };
        match self.serve(key, || self.publish_once(&request)).await {
            Served::Now(published) => self.known().messages.push((application, published.message.id)),
            Served::Before(_) => {}
            Served::Refused(StoreError::UidTaken { .. }) if has_uid => {
                self.world.checker.record_repeated_request();
            }
            Served::Refused(error) => return self.world.checker.report_refused(&error),
        }
        if !self.world.checker.is_published(&payload) {
            let detail = format!("a message of {} bytes was acknowledged but is not stored", payload.len());
            self.world.checker.report_violation("fan-out", detail);
        }
    }

    /// Makes one request, half of the time to a process with a worker. Such a process may crash meanwhile, so the producer
    /// waits for a limited time.
    async fn publish_once(&self, request: &PublishRequest) -> Result<Publication, StoreError> {
        let direct = self.world.random_direct_store(&self.random).filter(|_| self.random.chance(500));
        let Some(direct) = direct else { return self.store.messages().publish(request).await };
        let patience = self.random.millis(if self.random.chance(100) { 0..10 } else { 1_000..30_000 });
        tokio::select! {
            biased;
            published = direct.messages().publish(request) => published,
            () = sleep(patience) => Err(StoreError::Unavailable { reason: "no response".to_owned() }),
        }
    }
}
