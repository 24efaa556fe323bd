//! Producers that repeat each request until it is acknowledged, and an operator that acts at random times.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use posthaste_domain::{DeliveryStatus, DestinationId, EventId, NewEvent, NewEventSpec, WorkerId};
use posthaste_store::{
    ActionRequest, DeadLetterQuery, DestinationState, EnqueueRequest, EnqueueResponse, EventQuery, EventView,
    Idempotency, PageLimit, PageRequest, PauseRequest, Store, StoreError,
};
use tokio::task::JoinSet;

use crate::FaultInjection;
use crate::fault::Fault;
use crate::process::Process;
use crate::random::SeededRandom;
use crate::registry_layer::layer_registry;
use crate::time::sleep;
use crate::worker_ports::FaultyStore;
use crate::world::World;

/// Returns the store as a client process sees it: with network faults, but without crashes of the client.
pub(crate) fn client_store(world: &Arc<World>, name: &str) -> Arc<dyn Store> {
    let name = WorkerId::new(name).expect("visible ASCII");
    let process = Arc::new(Process::boot(name, world.clock));
    let inner = world.checker.store_of(Arc::clone(&process));
    layer_registry(FaultyStore { inner, world: Arc::clone(world), process, can_crash: false })
}

/// A client that enqueues events.
struct Producer {
    world: Arc<World>,
    /// The store as a process without a worker uses it.
    store: Arc<dyn Store>,
    random: SeededRandom,
}

/// Enqueues all events of the scenario during the fault phase, in random bursts of concurrent requests.
pub(crate) async fn produce(world: Arc<World>, seed: u64) {
    let random = SeededRandom::new(seed, 3);
    let store = client_store(&world, "producer");
    let random_of_calls = SeededRandom::new(seed, 7);
    let producer = Arc::new(Producer { world: Arc::clone(&world), store, random: random_of_calls });
    let mut producers = JoinSet::new();
    let events = u64::try_from(world.scenario.events).unwrap_or(u64::MAX);
    let pace = u64::try_from(world.scenario.fault_duration.as_millis()).unwrap_or(u64::MAX) / events.max(1);
    let mut enqueued = 0;
    while enqueued < world.scenario.events {
        let burst = (random.index(6) + 1).min(world.scenario.events - enqueued);
        let mut remaining = burst;
        while remaining > 0 {
            let count = (random.index(3) + 1).min(remaining);
            let first = enqueued + burst - remaining;
            let numbers = first..first + count;
            let request = request(&world, &random, numbers);
            producers.spawn(Arc::clone(&producer).enqueue_until_acknowledged(request));
            remaining -= count;
        }
        enqueued += burst;
        sleep(random.millis(0..2 * pace * burst as u64 + 1)).await;
    }
    while producers.join_next().await.is_some() {}
}

impl Producer {
    /// Repeats a request under the same idempotency key until the store acknowledges or refuses it.
    async fn enqueue_until_acknowledged(self: Arc<Self>, request: EnqueueRequest) {
        let checker = &self.world.checker;
        loop {
            match self.enqueue(request.clone()).await {
                Ok(response) => return checker.check_acknowledged(&request.events, &response),
                Err(error) if error.is_transient() => sleep(Duration::from_secs(1)).await,
                Err(error) => return checker.report_refused(&error),
            }
        }
    }

    /// Makes one request, in two of three cases to a process with a worker. Such a process may crash meanwhile, so the
    /// producer waits for a limited time, and sometimes hardly at all.
    async fn enqueue(&self, request: EnqueueRequest) -> Result<EnqueueResponse, StoreError> {
        let direct = self.world.random_direct_store(&self.random);
        let Some(direct) = direct.filter(|_| self.random.chance(667)) else {
            return self.store.enqueue(request).await;
        };
        let patience = if self.random.chance(50) {
            self.random.millis(0..10)
        } else {
            self.random.millis(1_000..60_000)
        };
        tokio::select! {
            biased;
            response = direct.enqueue(request) => response,
            () = sleep(patience) => Err(StoreError::Unavailable { reason: "no response".to_owned() }),
        }
    }
}

/// Builds the request that enqueues the events with these numbers.
fn request(world: &World, random: &SeededRandom, numbers: Range<usize>) -> EnqueueRequest {
    let mut fingerprint = [0; 32];
    fingerprint[..8].copy_from_slice(&(numbers.start as u64).to_be_bytes());
    let key = format!("key-{}", numbers.start);
    let idempotency = Idempotency { key, fingerprint, keep_for: Duration::from_secs(86_400) };
    let events = numbers.map(|number| event(world, random, number)).collect();
    EnqueueRequest { idempotency: Some(idempotency), ..EnqueueRequest::new(events) }
}

pub(crate) const POISON: &[u8] = b"poison";

/// Returns whether an event is a poison event: its worker crashes whenever it sends it.
pub(crate) fn is_poison(payload: &[u8]) -> bool {
    payload.starts_with(POISON)
}

/// Size of the largest payload.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 1_000;

/// Returns the payload of an event. It contains the event's number, so that no two events have the same payload. One in three
/// payloads is large: payloads of these sizes reach the byte limit of a worker.
pub(crate) fn payload(kind: &str, number: usize) -> Bytes {
    let mut payload = format!("{kind} {number}").into_bytes();
    if number.is_multiple_of(3) {
        payload.resize(100 + number * 37 % (PAYLOAD_BYTES_MAX - 100), b' ');
    }
    Bytes::from(payload)
}

fn event(world: &World, random: &SeededRandom, number: usize) -> NewEvent {
    let poisoned = world.scenario.fault_injection == FaultInjection::ThenRecovery && random.chance(5);
    let kind = if poisoned { std::str::from_utf8(POISON).expect("POISON is ASCII") } else { "number" };
    // The first receiver gets many events, so that workers remember it.
    let receiver = if random.chance(500) { 0 } else { random.index(world.scenario.destinations) };
    let is_alone = random.chance(50);
    let spec = NewEventSpec {
        destination_url: if is_alone {
            world.destination_of_one_event(receiver, number)
        } else {
            world.destination(receiver)
        },
        event_type: "simulated".into(),
        payload: payload(kind, number),
        session_id: Some(format!("session-{number}")),
        max_attempts: random.chance(300).then(|| u32::try_from(random.in_range(1..8)).expect("at most 7")),
        ..NewEventSpec::default()
    };
    NewEvent::accept(spec, PAYLOAD_BYTES_MAX, world.scenario.settings.policy.max_attempts())
        .expect("a valid event")
}

/// Requeues, cancels and discards random events during the fault phase. Repeats an action without a response under its key.
pub(crate) async fn run_operator(world: Arc<World>, seed: u64) {
    let random = SeededRandom::new(seed, 4);
    let store = client_store(&world, "operator");
    for number in 0_u32.. {
        sleep(random.millis(2_000..60_000)).await;
        if world.faults_are_over() {
            return resume_all(&*store).await;
        }
        let key = format!("action-{number}");
        let acted = match random.index(17) {
            0..6 => requeue(&*store, &random, &key).await,
            6..9 => cancel(&*store, &random, &key).await,
            9..10 => discard(&*store, &random, &key).await,
            10..11 => pause(&*store, &random).await,
            11..13 => probe(&*store, &random).await,
            _ => resume(&*store, &random).await,
        };
        match acted {
            Ok(Some(fault)) => world.count(fault),
            Ok(None) => {}
            // A conflict is expected when an event changes before the operator acts; the checker validates the store.
            Err(_) => {}
        }
    }
}

/// Pauses a random destination, with or without an end. Returns none if there is none.
async fn pause(store: &dyn Store, random: &SeededRandom) -> Result<Option<Fault>, StoreError> {
    let Some(id) = pick_destination(store, None, random).await? else { return Ok(None) };
    let duration = random.chance(600).then(|| random.millis(1_000..600_000));
    store.pause_destination(id, &PauseRequest::new("sim", duration, Some("because"))).await?;
    Ok(Some(Fault::OperatorPause))
}

/// Resumes a random destination that is held, more often one with an open circuit: few circuits stay open long enough to
/// show whether workers notice. Returns none if there is none.
async fn resume(store: &dyn Store, random: &SeededRandom) -> Result<Option<Fault>, StoreError> {
    let state = random.pick(&[
        DestinationState::Paused,
        DestinationState::CircuitOpen,
        DestinationState::CircuitOpen,
    ]);
    let Some(id) = pick_destination(store, Some(state), random).await? else { return Ok(None) };
    store.resume_destination(id, "sim").await?;
    Ok(Some(Fault::OperatorResume))
}

/// Probes a random destination with an open circuit. Returns none if there is none, or if no probe is sent.
async fn probe(store: &dyn Store, random: &SeededRandom) -> Result<Option<Fault>, StoreError> {
    let open = Some(DestinationState::CircuitOpen);
    let Some(id) = pick_destination(store, open, random).await? else { return Ok(None) };
    let response = store.probe_destination(id, "sim").await?;
    Ok(response.refusal.is_none().then_some(Fault::OperatorProbe))
}

async fn pick_destination(
    store: &dyn Store,
    state: Option<DestinationState>,
    random: &SeededRandom,
) -> Result<Option<DestinationId>, StoreError> {
    let listed = store.destinations(state, &PageRequest::default()).await?.items;
    let picked = if listed.is_empty() { None } else { listed.get(random.index(listed.len())) };
    Ok(picked.map(|view| view.status.id))
}

/// Resumes every destination that an operator has paused, so that all events can end.
async fn resume_all(store: &dyn Store) {
    loop {
        let resumed = async {
            let paused = store.destinations(Some(DestinationState::Paused), &PageRequest::default()).await?;
            for view in paused.items.iter().filter(|view| view.status.operator_pause.is_some()) {
                store.resume_destination(view.status.id, "sim").await?;
            }
            Ok::<_, StoreError>(())
        };
        match resumed.await {
            Ok(()) => return,
            Err(_) => sleep(Duration::from_secs(1)).await,
        }
    }
}

/// Requeues a random dead letter. Returns none if there is none.
async fn requeue(store: &dyn Store, random: &SeededRandom, key: &str) -> Result<Option<Fault>, StoreError> {
    let Some(event_id) = pick_dead_letter(store, random).await? else { return Ok(None) };
    repeat_until_answered(random, || store.requeue(&event_id, action(key))).await?;
    Ok(Some(Fault::OperatorRequeue))
}

/// Discards a random dead letter. Returns none if there is none.
async fn discard(store: &dyn Store, random: &SeededRandom, key: &str) -> Result<Option<Fault>, StoreError> {
    let Some(event_id) = pick_dead_letter(store, random).await? else { return Ok(None) };
    repeat_until_answered(random, || store.discard(&event_id, action(key), Some("because"))).await?;
    Ok(Some(Fault::OperatorDiscard))
}

async fn pick_dead_letter(store: &dyn Store, random: &SeededRandom) -> Result<Option<EventId>, StoreError> {
    let page = PageRequest { after: None, limit: PageLimit::new(20).expect("in range") };
    let failed = store.dead_letters(&DeadLetterQuery::all(), &page).await?.items;
    Ok(pick_event(&failed, random))
}

/// Cancels a random event, preferably one in flight. Returns none if there is none.
async fn cancel(store: &dyn Store, random: &SeededRandom, key: &str) -> Result<Option<Fault>, StoreError> {
    let page = PageRequest { after: None, limit: PageLimit::new(50).expect("in range") };
    let status = if random.chance(800) { Some(DeliveryStatus::Pending) } else { None };
    let events = store.events(&EventQuery { status, ..EventQuery::default() }, &page).await?.items;
    let leased: Vec<EventView> = events.iter().filter(|event| event.lease_owner.is_some()).cloned().collect();
    let (candidates, fault) = if leased.is_empty() {
        (events, Fault::OperatorCancel)
    } else {
        (leased, Fault::OperatorCancelInFlight)
    };
    let Some(event_id) = pick_event(&candidates, random) else { return Ok(None) };
    repeat_until_answered(random, || store.cancel(&event_id, action(key), Some("because"))).await?;
    Ok(Some(fault))
}

fn pick_event(events: &[EventView], random: &SeededRandom) -> Option<EventId> {
    if events.is_empty() { None } else { Some(events[random.index(events.len())].event_id.clone()) }
}

fn action(key: &str) -> ActionRequest<'_> {
    ActionRequest { actor: "sim", key: Some(key) }
}

/// Makes a call again as long as the store is unavailable, at most ten times.
pub(crate) async fn repeat_until_answered<T, C: Future<Output = Result<T, StoreError>>>(
    random: &SeededRandom,
    call: impl Fn() -> C,
) -> Result<T, StoreError> {
    for _ in 0..10 {
        match call().await {
            Err(error) if error.is_transient() => sleep(random.millis(100..20_000)).await,
            answered => return answered,
        }
    }
    call().await
}
