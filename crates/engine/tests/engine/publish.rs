//! Followers of the topic who come at the same moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::stage::{Stage, secs};
use async_trait::async_trait;
use posthaste_domain::DeliveryStatus;
use posthaste_engine::{Publisher, TokioClock};
use posthaste_store::{LayeredStore, NoticeCursor, NoticePage, Store, StoreError, StoreLayer};
use posthaste_store_memory::MemoryStore;
use tokio::sync::Notify;

/// The first reply that says where the log ends is long on its way.
struct SlowAtFirst {
    memory: MemoryStore,
    asked: AtomicBool,
    arrives: Notify,
}

#[async_trait]
impl StoreLayer for SlowAtFirst {
    fn inner(&self) -> &dyn Store {
        &self.memory
    }

    async fn notices(&self, after: Option<NoticeCursor>, limit: usize) -> Result<NoticePage, StoreError> {
        let page = self.memory.notices(after, limit).await;
        if after.is_none() && !self.asked.swap(true, Ordering::Relaxed) {
            self.arrives.notified().await;
        }
        page
    }
}

#[tokio::test(start_paused = true)]
async fn of_two_followers_who_come_at_once_neither_misses_anything_after_its_cursor() {
    let stage = Stage::set();
    let memory = stage.memory.clone();
    let store =
        Arc::new(LayeredStore(SlowAtFirst { memory, asked: AtomicBool::new(false), arrives: Notify::new() }));
    let publisher = Publisher::new(Arc::clone(&store) as _);
    tokio::spawn(publisher.clone().run(Arc::new(TokioClock::start()), secs(1)));

    let slow = tokio::spawn({
        let publisher = publisher.clone();
        async move { publisher.subscribe().await }
    });
    stage.until("the slow one has asked where the log ends", |_| store.0.asked.load(Ordering::Relaxed)).await;
    let _engine = stage.start(|_| ());
    stage.enqueue("first", 1).await;
    stage.until_all(DeliveryStatus::Delivered).await;
    let mut quick = publisher.subscribe().await.unwrap();
    store.0.arrives.notify_one();
    let mut slow = slow.await.unwrap().unwrap();

    let begins_after = slow.cursor();
    stage.enqueue("second", 1).await;
    stage.until_all(DeliveryStatus::Delivered).await;
    let after = store.notices(Some(begins_after), 10).await.unwrap().notices;
    assert_eq!(slow.next().await.unwrap(), after[0], "the first that was committed after its cursor");
    assert_eq!(quick.next().await.unwrap(), *after.last().unwrap());
}
