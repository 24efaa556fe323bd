//! Producers that insist until they are acknowledged, and operators that act at any moment.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use posthaste_domain::{DeliveryStatus, EventId, NewEvent, NewEventSpec, WorkerId};
use posthaste_engine::enqueuer;
use posthaste_store::{
    EnqueueRequest, EventQuery, EventView, Idempotency, Layered, PageLimit, PageRequest, Store, StoreError,
};
use tokio::task::JoinSet;

use crate::dice::Dice;
use crate::fault::Fault;
use crate::incarnation::Incarnation;
use crate::time::sleep;
use crate::worker_ports::FaultyStore;
use crate::world::{World, destination};

/// A process that uses the store but never crashes.
fn immortal(world: &Arc<World>, name: &str) -> Arc<dyn Store> {
    let name = WorkerId::new(name).expect("visible ASCII");
    let process = Arc::new(Incarnation::boot(name, world.clock));
    let inner = world.checker.store_of(Arc::clone(&process));
    Arc::new(Layered(FaultyStore { inner, world: Arc::clone(world), process, mortal: false }))
}

/// Enqueues all events of the scenario over the time of turmoil, several at once now and then.
pub(crate) async fn produce(world: Arc<World>, seed: u64) {
    let dice = Dice::new(seed, 3);
    let (front, behind) = enqueuer(immortal(&world, "producer"));
    let mut producers = JoinSet::new();
    producers.spawn(behind);
    let events = u64::try_from(world.scenario.events).unwrap_or(u64::MAX);
    let pace = u64::try_from(world.scenario.turmoil.as_millis()).unwrap_or(u64::MAX) / events.max(1);
    let mut made = 0;
    while made < world.scenario.events {
        let burst = (dice.index(6) + 1).min(world.scenario.events - made);
        for number in made..made + burst {
            let front = front.clone();
            let world = Arc::clone(&world);
            let request = request(&world, &dice, number);
            producers.spawn(async move {
                // Until it is acknowledged, the producer does not know; it asks again under the same key.
                loop {
                    match front.enqueue(request.clone()).await {
                        Ok(enqueued) => {
                            world.checker.acknowledged(&enqueued);
                            return;
                        }
                        Err(error) if error.is_transient() => sleep(Duration::from_secs(1)).await,
                        Err(error) => {
                            world.checker.refused(&error);
                            return;
                        }
                    }
                }
            });
        }
        made += burst;
        sleep(dice.millis(0..2 * pace * burst as u64 + 1)).await;
    }
    drop(front);
    while producers.join_next().await.is_some() {}
}

fn request(world: &World, dice: &Dice, number: usize) -> EnqueueRequest {
    let spec = NewEventSpec {
        destination_url: destination(dice.index(world.scenario.destinations)),
        event_type: "simulated".into(),
        payload: Bytes::from(format!("{{\"number\": {number}}}")),
        session_id: Some(format!("session-{number}")),
        ..NewEventSpec::default()
    };
    let event =
        NewEvent::accept(spec, 1_024, world.scenario.settings.policy.max_attempts()).expect("a valid event");
    let mut fingerprint = [0; 32];
    fingerprint[..8].copy_from_slice(&(number as u64).to_be_bytes());
    let idempotency =
        Idempotency { key: format!("key-{number}"), fingerprint, keep: Duration::from_secs(86_400) };
    EnqueueRequest { events: vec![event], idempotency: Some(idempotency) }
}

/// Requeues and cancels whatever it finds, as long as the turmoil lasts.
pub(crate) async fn operate(world: Arc<World>, seed: u64) {
    let dice = Dice::new(seed, 4);
    let store = immortal(&world, "operator");
    loop {
        sleep(dice.millis(2_000..60_000)).await;
        if world.is_calm() {
            return;
        }
        let acted =
            if dice.chance(700) { requeue(&*store, &dice).await } else { cancel(&*store, &dice).await };
        match acted {
            Ok(Some(fault)) => world.count(fault),
            Ok(None) => {}
            // A conflict is the right answer to an operator who was too late; the checker judges the store itself.
            Err(_) => {}
        }
    }
}

async fn requeue(store: &dyn Store, dice: &Dice) -> Result<Option<Fault>, StoreError> {
    let page = PageRequest { after: None, limit: PageLimit::new(20).expect("in range") };
    let failed = store.dead_letters(&page).await?.items;
    let Some(event_id) = some(&failed, dice) else { return Ok(None) };
    store.requeue(&event_id, "sim").await?;
    Ok(Some(Fault::OperatorRequeue))
}

async fn cancel(store: &dyn Store, dice: &Dice) -> Result<Option<Fault>, StoreError> {
    let page = PageRequest { after: None, limit: PageLimit::new(50).expect("in range") };
    let status = if dice.chance(800) { Some(DeliveryStatus::Pending) } else { None };
    let events = store.events(&EventQuery { status, destination: None }, &page).await?.items;
    let leased: Vec<EventView> = events.iter().filter(|event| event.lease_owner.is_some()).cloned().collect();
    let (candidates, fault) = if leased.is_empty() {
        (events, Fault::OperatorCancel)
    } else {
        (leased, Fault::OperatorCancelInFlight)
    };
    let Some(event_id) = some(&candidates, dice) else { return Ok(None) };
    store.cancel(&event_id, "sim", Some("because")).await?;
    Ok(Some(fault))
}

fn some(events: &[EventView], dice: &Dice) -> Option<EventId> {
    if events.is_empty() { None } else { Some(events[dice.index(events.len())].event_id.clone()) }
}
