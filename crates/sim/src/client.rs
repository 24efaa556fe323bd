//! Producers that insist until they are acknowledged, and operators that act at any moment.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use posthaste_domain::{DeliveryStatus, EventId, NewEvent, NewEventSpec, WorkerId};
use posthaste_engine::{Enqueuer, enqueuer};
use posthaste_store::{
    EnqueueRequest, EventQuery, EventView, Idempotency, Layered, PageLimit, PageRequest, Store, StoreError,
};
use tokio::task::JoinSet;

use crate::Calm;
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
        let mut left = burst;
        while left > 0 {
            let many = (dice.index(3) + 1).min(left);
            let numbers = made + burst - left..made + burst - left + many;
            producers.spawn(insist(front.clone(), Arc::clone(&world), request(&world, &dice, numbers)));
            left -= many;
        }
        made += burst;
        sleep(dice.millis(0..2 * pace * burst as u64 + 1)).await;
    }
    drop(front);
    while producers.join_next().await.is_some() {}
}

/// Until it is acknowledged, a producer does not know; it asks again under the same key.
async fn insist(front: Enqueuer, world: Arc<World>, request: EnqueueRequest) {
    loop {
        match front.enqueue(request.clone()).await {
            Ok(enqueued) => return world.checker.acknowledged(&request.events, &enqueued),
            Err(error) if error.is_transient() => sleep(Duration::from_secs(1)).await,
            Err(error) => return world.checker.refused(&error),
        }
    }
}

fn request(world: &World, dice: &Dice, numbers: Range<usize>) -> EnqueueRequest {
    let mut fingerprint = [0; 32];
    fingerprint[..8].copy_from_slice(&(numbers.start as u64).to_be_bytes());
    let key = format!("key-{}", numbers.start);
    let idempotency = Idempotency { key, fingerprint, keep: Duration::from_secs(86_400) };
    let events = numbers.map(|number| event(world, dice, number)).collect();
    EnqueueRequest { events, idempotency: Some(idempotency) }
}

const POISON: &[u8] = b"poison";

/// Whoever sends this goes down.
pub(crate) fn is_poison(payload: &[u8]) -> bool {
    payload.starts_with(POISON)
}

fn event(world: &World, dice: &Dice, number: usize) -> NewEvent {
    let poisonous = world.scenario.calm == Calm::InTheEnd && dice.chance(5);
    let kind = if poisonous { std::str::from_utf8(POISON).expect("it is text") } else { "number" };
    let spec = NewEventSpec {
        destination_url: destination(dice.index(world.scenario.destinations)),
        event_type: "simulated".into(),
        payload: Bytes::from(format!("{kind} {number}")),
        session_id: Some(format!("session-{number}")),
        max_attempts: dice.chance(300).then(|| u32::try_from(dice.within(1..8)).expect("at most 7")),
        ..NewEventSpec::default()
    };
    NewEvent::accept(spec, 1_024, world.scenario.settings.policy.max_attempts()).expect("a valid event")
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
