//! Engines that are wrong in one way, as their ports see it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use posthaste_domain::{Lease, LeaseToken, Notice, Outcome, Timestamp, WorkerId};
use posthaste_engine::Sender;
use posthaste_sim::Sabotage;
use posthaste_store::{
    HeldLease, Layer, Layered, NoticeCursor, NoticePage, PublishedNotice, Settled, Settlement, Store,
    StoreError,
};

type EnginePorts = (Arc<dyn Store>, Arc<dyn Sender>);

/// Stops renewing when the response is there, though the settle has not committed yet.
pub(crate) struct HeartbeatStopsBeforeSettle;

impl Sabotage for HeartbeatStopsBeforeSettle {
    fn engine(&self, store: Arc<dyn Store>, sender: Arc<dyn Sender>) -> EnginePorts {
        let sent = Arc::new(Mutex::new(BTreeSet::new()));
        let store = Layered(RenewOnlyUnsent { store, sent: Arc::clone(&sent) });
        (Arc::new(store), Arc::new(NoteSent { sender, sent }))
    }
}

struct RenewOnlyUnsent {
    store: Arc<dyn Store>,
    sent: Arc<Mutex<BTreeSet<LeaseToken>>>,
}

#[async_trait]
impl Layer for RenewOnlyUnsent {
    fn inner(&self) -> &dyn Store {
        &*self.store
    }

    async fn renew(&self, held: &[HeldLease], lease: Duration) -> Result<Vec<HeldLease>, StoreError> {
        let unsent: Vec<HeldLease> = {
            let sent = self.sent.lock().expect("one thread");
            held.iter().filter(|held| !sent.contains(&held.token)).copied().collect()
        };
        self.store.renew(&unsent, lease).await
    }
}

struct NoteSent {
    sender: Arc<dyn Sender>,
    sent: Arc<Mutex<BTreeSet<LeaseToken>>>,
}

#[async_trait]
impl Sender for NoteSent {
    async fn send(&self, lease: &Lease, timeout: Duration) -> Outcome {
        let outcome = self.sender.send(lease, timeout).await;
        self.sent.lock().expect("one thread").insert(lease.token);
        outcome
    }
}

/// Never renews anything.
pub(crate) struct NoHeartbeat;

impl Sabotage for NoHeartbeat {
    fn engine(&self, store: Arc<dyn Store>, sender: Arc<dyn Sender>) -> EnginePorts {
        (Arc::new(Layered(RenewNothing(store))), sender)
    }
}

struct RenewNothing(Arc<dyn Store>);

#[async_trait]
impl Layer for RenewNothing {
    fn inner(&self) -> &dyn Store {
        &*self.0
    }

    async fn renew(&self, _held: &[HeldLease], _lease: Duration) -> Result<Vec<HeldLease>, StoreError> {
        Ok(Vec::new())
    }
}

/// Tells followers what it is about to write.
pub(crate) struct NoticeBeforeCommit;

impl Sabotage for NoticeBeforeCommit {
    fn engine(&self, store: Arc<dyn Store>, sender: Arc<dyn Sender>) -> EnginePorts {
        (Arc::new(Layered(PublishFirst { store, early: Mutex::default() })), sender)
    }
}

struct PublishFirst {
    store: Arc<dyn Store>,
    early: Mutex<Vec<Notice>>,
}

#[async_trait]
impl Layer for PublishFirst {
    fn inner(&self) -> &dyn Store {
        &*self.store
    }

    async fn settle(&self, worker: &WorkerId, batch: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
        let early = batch.iter().filter_map(|settlement| {
            let transition = &settlement.transition;
            Some(Notice {
                kind: transition.notice()?,
                event_id: transition.event_id().clone(),
                webhook_id: None,
                session_id: None,
                payment_request_id: None,
                attempts: transition.attempt(),
                at: Timestamp::default(),
            })
        });
        self.early.lock().expect("one thread").extend(early);
        self.store.settle(worker, batch).await
    }

    async fn notices(&self, after: Option<NoticeCursor>, limit: usize) -> Result<NoticePage, StoreError> {
        let mut page = self.store.notices(after, limit).await?;
        let early: Vec<Notice> = std::mem::take(&mut *self.early.lock().expect("one thread"));
        let cursor = page.cursor;
        page.notices.extend(early.into_iter().map(|notice| PublishedNotice { cursor, notice }));
        Ok(page)
    }
}

/// Takes no answer for a good answer.
pub(crate) struct TimeoutIsSuccess;

impl Sabotage for TimeoutIsSuccess {
    fn engine(&self, store: Arc<dyn Store>, sender: Arc<dyn Sender>) -> EnginePorts {
        (store, Arc::new(Optimist(sender)))
    }
}

struct Optimist(Arc<dyn Sender>);

#[async_trait]
impl Sender for Optimist {
    async fn send(&self, lease: &Lease, timeout: Duration) -> Outcome {
        match self.0.send(lease, timeout).await {
            Outcome::NoResponse { .. } => Outcome::response(200, None, b""),
            outcome => outcome,
        }
    }
}

/// Sends again by itself when the connection breaks, as a client library might.
pub(crate) struct HiddenResend;

impl Sabotage for HiddenResend {
    fn engine(&self, store: Arc<dyn Store>, sender: Arc<dyn Sender>) -> EnginePorts {
        (store, Arc::new(Resend(sender)))
    }
}

struct Resend(Arc<dyn Sender>);

#[async_trait]
impl Sender for Resend {
    async fn send(&self, lease: &Lease, timeout: Duration) -> Outcome {
        match self.0.send(lease, timeout).await {
            Outcome::NoResponse { .. } => self.0.send(lease, timeout).await,
            outcome => outcome,
        }
    }
}
