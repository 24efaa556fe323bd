//! Engines that are wrong in one way, as their ports see it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use posthaste_domain::{
    Attempted, Lease, LeaseToken, Notice, Outcome, RetryPolicy, Roll, Timestamp, Transition, WorkerId,
};
use posthaste_engine::Sender;
use posthaste_sim::Sabotage;
use posthaste_store::{
    ClaimRequest, Claimed, HeldLease, Layer, Layered, NoticeCursor, NoticePage, PublishedNotice, Settled,
    Settlement, Store, StoreError,
};

type EnginePorts = (Arc<dyn Store>, Arc<dyn Sender>);

/// A bug that shows in how an engine uses its store: its name, the methods that it changes, and whatever it has to
/// remember.
macro_rules! engine_bug {
    ($(#[$doc:meta])* $name:ident $(remembers $memory:ty)?; $($method:item)*) => {
        $(#[$doc])*
        pub(crate) struct $name;

        impl Sabotage for $name {
            fn engine(&self, store: Arc<dyn Store>, sender: Arc<dyn Sender>) -> EnginePorts {
                struct Bug {
                    store: Arc<dyn Store>,
                    $(remembered: $memory,)?
                }

                #[async_trait]
                impl Layer for Bug {
                    fn inner(&self) -> &dyn Store {
                        &*self.store
                    }
                    $($method)*
                }

                (Arc::new(Layered(Bug { store, $(remembered: <$memory>::default(),)? })), sender)
            }
        }
    };
}

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

engine_bug! {
    /// Never renews anything.
    NoHeartbeat;

    async fn renew(&self, _held: &[HeldLease], _lease: Duration) -> Result<Vec<HeldLease>, StoreError> {
        Ok(Vec::new())
    }
}

engine_bug! {
    /// Tells followers what it is about to write.
    NoticeBeforeCommit remembers Mutex<Vec<Notice>>;

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
        self.remembered.lock().expect("one thread").extend(early);
        self.store.settle(worker, batch).await
    }

    async fn notices(&self, after: Option<NoticeCursor>, limit: usize) -> Result<NoticePage, StoreError> {
        let mut page = self.store.notices(after, limit).await?;
        let early: Vec<Notice> = std::mem::take(&mut *self.remembered.lock().expect("one thread"));
        for notice in early {
            page.cursor.minor += 1;
            page.notices.push(PublishedNotice { cursor: page.cursor, notice });
        }
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

engine_bug! {
    /// Takes the first error for the last word.
    HeartbeatGivesUpAfterOneError remembers Mutex<BTreeSet<LeaseToken>>;

    async fn renew(&self, held: &[HeldLease], lease: Duration) -> Result<Vec<HeldLease>, StoreError> {
        let wanted: Vec<HeldLease> = {
            let given_up = self.remembered.lock().expect("one thread");
            held.iter().filter(|held| !given_up.contains(&held.token)).copied().collect()
        };
        let renewed = self.store.renew(&wanted, lease).await;
        if renewed.is_err() {
            self.remembered.lock().expect("one thread").extend(wanted.iter().map(|held| held.token));
        }
        renewed
    }
}

engine_bug! {
    /// Passes over every tenth page's first notice.
    PublisherSkipsNotices remembers Mutex<u32>;

    async fn notices(&self, after: Option<NoticeCursor>, limit: usize) -> Result<NoticePage, StoreError> {
        let mut page = self.store.notices(after, limit).await?;
        let mut pages = self.remembered.lock().expect("one thread");
        *pages += u32::from(!page.notices.is_empty());
        if *pages % 10 == 9 && !page.notices.is_empty() {
            page.notices.remove(0);
        }
        Ok(page)
    }
}

engine_bug! {
    /// Says that it released what it did not.
    ReleasesNothing;

    async fn release(&self, _held: &[HeldLease]) -> Result<(), StoreError> {
        Ok(())
    }
}

engine_bug! {
    /// Claims as if nothing were in flight.
    SlotsAreIgnored;

    async fn claim(&self, request: &ClaimRequest) -> Result<Claimed, StoreError> {
        self.store.claim(&ClaimRequest { free_slots: Default::default(), ..request.clone() }).await
    }
}

engine_bug! {
    /// Gives an event up at the first 404, whatever it has left.
    NotFoundIsFinal remembers Mutex<BTreeMap<LeaseToken, Lease>>;

    async fn claim(&self, request: &ClaimRequest) -> Result<Claimed, StoreError> {
        let claimed = self.store.claim(request).await?;
        let leases = claimed.leases.iter().map(|lease| (lease.token, lease.clone()));
        self.remembered.lock().expect("one thread").extend(leases);
        Ok(claimed)
    }

    async fn settle(&self, worker: &WorkerId, batch: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
        let mut batch = batch.to_vec();
        for Settlement { transition, .. } in &mut batch {
            if transition.outcome().http_status() == Some(404) {
                let lease = self.remembered.lock().expect("one thread")[&transition.token()].clone();
                let last = Lease { max_attempts: lease.attempt(), ..lease };
                let attempted =
                    Attempted { outcome: transition.outcome().clone(), duration: transition.duration() };
                *transition = Arc::new(Transition::of(&last, attempted, &RetryPolicy::default(), Roll(0)));
            }
        }
        self.store.settle(worker, &batch).await
    }
}
