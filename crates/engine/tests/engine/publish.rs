//! Subscriptions to notices: concurrent ones, and one whose log is replaced.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::fixture::{Fixture, secs};
use async_trait::async_trait;
use posthaste_domain::DeliveryStatus;
use posthaste_engine::{Publisher, SubscriptionGap, TokioClock};
use posthaste_store::{LayeredStore, NoticeCursor, NoticePage, Store, StoreError, StoreLayer};
use posthaste_store_memory::MemoryStore;
use tokio::sync::Notify;

/// A store whose first reply with the end of the notice log is delayed until `reply` is notified.
struct SlowFirstReply {
    memory: MemoryStore,
    called: AtomicBool,
    reply: Notify,
}

#[async_trait]
impl StoreLayer for SlowFirstReply {
    fn inner(&self) -> &dyn Store {
        &self.memory
    }

    async fn notices(&self, after: Option<NoticeCursor>, limit: usize) -> Result<NoticePage, StoreError> {
        let page = self.memory.notices(after, limit).await;
        if after.is_none() && !self.called.swap(true, Ordering::Relaxed) {
            self.reply.notified().await;
        }
        page
    }
}

#[tokio::test(start_paused = true)]
async fn concurrent_subscribers_miss_no_notice_after_their_cursors() {
    let fixture = Fixture::new();
    let memory = fixture.memory.clone();
    let store = Arc::new(LayeredStore(SlowFirstReply {
        memory,
        called: AtomicBool::new(false),
        reply: Notify::new(),
    }));
    let publisher = Publisher::new(Arc::clone(&store) as _);
    tokio::spawn(publisher.clone().run(Arc::new(TokioClock::start()), secs(1)));

    let slow = tokio::spawn({
        let publisher = publisher.clone();
        async move { publisher.subscribe().await }
    });
    fixture
        .wait_until("the slow subscriber has queried the end of the log", |_| {
            store.0.called.load(Ordering::Relaxed)
        })
        .await;
    let _engine = fixture.start(|_| ());
    fixture.enqueue("first", 1).await;
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    let mut quick = publisher.subscribe().await.unwrap();
    store.0.reply.notify_one();
    let mut slow = slow.await.unwrap().unwrap();

    let subscribed_after = slow.cursor();
    fixture.enqueue("second", 1).await;
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    let after = store.notices(Some(subscribed_after), 10).await.unwrap().notices;
    assert_eq!(slow.next().await.unwrap(), after[0], "the first notice committed after its cursor");
    assert_eq!(quick.next().await.unwrap(), *after.last().unwrap());
}

/// A store whose notice log can be replaced by a shorter one, as by a failover that loses the latest commits.
struct ReplacedLog {
    memory: MemoryStore,
    shorter: MemoryStore,
    is_replaced: AtomicBool,
}

#[async_trait]
impl StoreLayer for ReplacedLog {
    fn inner(&self) -> &dyn Store {
        if self.is_replaced.load(Ordering::Relaxed) { &self.shorter } else { &self.memory }
    }
}

#[tokio::test(start_paused = true)]
async fn a_log_that_ends_before_published_notices_is_reported_and_followed_from_its_end() {
    let (long, short) = (Fixture::new(), Fixture::new());
    let store = Arc::new(LayeredStore(ReplacedLog {
        memory: long.memory.clone(),
        shorter: short.memory.clone(),
        is_replaced: AtomicBool::new(false),
    }));
    let publisher = Publisher::new(Arc::clone(&store) as _);
    tokio::spawn(publisher.clone().run(Arc::new(TokioClock::start()), secs(1)));
    let _engines = [long.start(|_| ()), short.start(|_| ())];
    let mut subscription = publisher.subscribe().await.unwrap();
    long.enqueue("before", 5).await;
    for _ in 0..5 {
        subscription.next().await.unwrap();
    }
    short.enqueue("kept", 2).await;
    short.wait_until_all(DeliveryStatus::Delivered).await;
    let end = short.memory.notices(None, 0).await.unwrap().cursor;

    store.0.is_replaced.store(true, Ordering::Relaxed);
    assert_eq!(subscription.next().await, Err(SubscriptionGap::LogRewound { end }));
    assert_eq!(subscription.cursor(), end);
    short.enqueue("after", 1).await;
    let after = subscription.next().await.unwrap();
    assert_eq!(short.memory.notices(Some(end), 10).await.unwrap().notices, [after]);
}
