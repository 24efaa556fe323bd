//! An operator who repairs dead letters in bulk at random times, and stops some of the operations.

use std::sync::Arc;

use posthaste_domain::{BulkId, FailureKind, Throttle};
use posthaste_store::{
    BulkAction, BulkFilter, ListRequest, NewBulkOperation, OperationState, Store, StoreError,
};

use crate::client::{client_store, repeat_until_answered};
use crate::random::SeededRandom;
use crate::time::sleep;
use crate::world::World;

/// Starts and stops bulk operations during the fault phase, in half of the runs: an operator who repairs everything hides what
/// happens to events that stay failed. Repeats a call without a response under its key.
pub(crate) async fn run(world: Arc<World>, seed: u64) {
    let random = SeededRandom::new(seed, 12);
    let store = client_store(&world, "bulk-operator");
    if random.chance(500) {
        return;
    }
    for number in 0_u32.. {
        sleep(random.millis(20_000..300_000)).await;
        if world.faults_are_over() {
            return;
        }
        // An error is expected while the store is away; the checker validates the store.
        let _ = start(&*store, &random, &format!("bulk-{number}")).await;
        if random.chance(400) {
            sleep(random.millis(100..10_000)).await;
            let _ = stop(&*store, &random).await;
        }
    }
}

async fn start(store: &dyn Store, random: &SeededRandom, key: &str) -> Result<(), StoreError> {
    let action = random.pick(&[
        BulkAction::Requeue,
        BulkAction::Requeue,
        BulkAction::Requeue,
        BulkAction::Cancel,
        BulkAction::Discard,
    ]);
    let kinds = [None, None, Some(FailureKind::Exhausted), Some(FailureKind::Expired)];
    let filter = BulkFilter { failure_kind: random.pick(&kinds), ..BulkFilter::default() };
    let matched = store.bulk().count(&filter).await?;
    let rate = Throttle::new(random.pick(&[1, 1, 3, 100])).expect("a valid rate");
    let new = NewBulkOperation {
        action,
        filter,
        rate,
        matched,
        reason: Some("because"),
        actor: "sim",
        key: Some(key),
    };
    repeat_until_answered(random, || store.bulk().start(&new)).await?;
    Ok(())
}

/// Stops a random operation that is running.
async fn stop(store: &dyn Store, random: &SeededRandom) -> Result<(), StoreError> {
    let running = store.bulk().list(Some(OperationState::Running), &ListRequest::default()).await?.items;
    if running.is_empty() {
        return Ok(());
    }
    let id: BulkId = running[random.index(running.len())].id;
    repeat_until_answered(random, || store.bulk().stop(id, "sim")).await?;
    Ok(())
}
