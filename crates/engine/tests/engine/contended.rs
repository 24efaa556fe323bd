//! Producers beside somebody's open transaction that holds a destination.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::stage::{event, millis, secs};
use async_trait::async_trait;
use posthaste_engine::{Clock as _, Enqueuer, TokioClock, enqueuer};
use posthaste_store::{EnqueueRequest, Enqueued, Layer, Layered, Store, StoreError};
use posthaste_store_memory::MemoryStore;

use crate::stage::Stage;

/// How long the store waits before it says that somebody is in the way.
const PATIENCE: std::time::Duration = millis(250);

/// Whoever stores to `held` must wait, and with it whoever shares its call.
struct HeldUp {
    memory: MemoryStore,
    held: AtomicBool,
    clock: TokioClock,
    /// How many requests each call had.
    calls: Mutex<Vec<usize>>,
}

#[async_trait]
impl Layer for HeldUp {
    fn inner(&self) -> &dyn Store {
        &self.memory
    }

    async fn enqueue(
        &self,
        batch: &[EnqueueRequest],
    ) -> Result<Vec<Result<Enqueued, StoreError>>, StoreError> {
        self.calls.lock().expect("one thread").push(batch.len());
        let mut answers = Vec::new();
        for request in batch {
            let url = request.events[0].destination_url().as_str();
            if self.held.load(Ordering::Relaxed) && url.contains("held") {
                self.clock.sleep(PATIENCE).await;
                answers.push(Err(StoreError::Contended { held: Some(url.to_owned()) }));
            } else {
                answers.extend(self.memory.enqueue(std::slice::from_ref(request)).await?);
            }
        }
        Ok(answers)
    }
}

fn held_up(stage: &Stage) -> (Arc<Layered<HeldUp>>, Enqueuer) {
    let store = Arc::new(Layered(HeldUp {
        memory: stage.memory.clone(),
        held: AtomicBool::new(true),
        clock: TokioClock::start(),
        calls: Mutex::default(),
    }));
    let (front, behind) = enqueuer(Arc::clone(&store) as _);
    tokio::spawn(behind);
    (store, front)
}

fn asking(
    front: &Enqueuer,
    host: &str,
    number: usize,
) -> tokio::task::JoinHandle<Result<Enqueued, StoreError>> {
    let request = EnqueueRequest { events: vec![event(host, number)], idempotency: None };
    let front = front.clone();
    tokio::spawn(async move { front.enqueue(request).await })
}

#[tokio::test(start_paused = true)]
async fn whoever_needs_what_somebody_holds_waits_and_nobody_else_does() {
    let stage = Stage::set();
    let (store, front) = held_up(&stage);
    let (first, beside) = (asking(&front, "held", 0), asking(&front, "up", 0));
    beside.await.unwrap().unwrap();
    assert_eq!(stage.monotonic(), PATIENCE, "its neighbour finds out, once");

    let second = asking(&front, "held", 1);
    asking(&front, "up", 1).await.unwrap().unwrap();
    assert_eq!(stage.monotonic(), PATIENCE, "now it is known, and nobody waits for it");

    store.0.held.store(false, Ordering::Relaxed);
    assert!(first.await.unwrap().is_ok() && second.await.unwrap().is_ok());
    assert_eq!(stage.memory.with_state(|state| state.rows.len()), 4, "each was stored once");
    // Its destination is like any other again.
    let (third, beside) = (asking(&front, "held", 2), asking(&front, "up", 2));
    assert!(third.await.unwrap().is_ok() && beside.await.unwrap().is_ok());
    assert_eq!(store.0.calls.lock().unwrap().last(), Some(&2), "they share a call");
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_in_vain_is_told_with_all_who_wait_for_the_same() {
    let stage = Stage::set();
    let (_store, front) = held_up(&stage);
    let waiting: Vec<_> = (0..20).map(|number| asking(&front, "held", number)).collect();
    for waiting in waiting {
        let told = waiting.await.unwrap();
        assert!(matches!(told, Err(StoreError::Contended { .. })), "{told:?}");
    }
    assert!(stage.monotonic() < secs(10), "took {:?}", stage.monotonic());
    assert_eq!(stage.memory.with_state(|state| state.rows.len()), 0);
}

#[tokio::test(start_paused = true)]
async fn those_who_wait_are_answered_before_the_loop_ends() {
    let stage = Stage::set();
    let (store, front) = held_up(&stage);
    let waiting = asking(&front, "held", 0);
    asking(&front, "up", 0).await.unwrap().unwrap();
    drop(front);
    store.0.held.store(false, Ordering::Relaxed);
    assert!(waiting.await.unwrap().is_ok());
}
