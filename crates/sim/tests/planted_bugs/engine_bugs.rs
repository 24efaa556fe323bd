//! Engines with one known bug each, made by layers between the engine and its ports.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use posthaste_domain::{
    AttemptResult, ErrorClass, Lease, LeaseToken, Notice, Outcome, RandomDraw, RetryPolicy, Timestamp,
    Transition, WorkerId,
};
use posthaste_engine::{Clock, LocalShortage, Sender};
use posthaste_sim::PlantedBug;
use posthaste_store::{
    ClaimRequest, ClaimResponse, EnqueueRequest, EnqueueResponse, ExpireRequest, ExpireResponse,
    LayeredStore, LeaseRef, NoticeCursor, NoticePage, PublishedNotice, ResumedDestination, SettleResult,
    Settlement, Store, StoreError, StoreLayer,
};

type EnginePorts = (Arc<dyn Store>, Arc<dyn Sender>);

/// Defines a bug in how an engine uses its store: its name, the store methods that it changes, and its own state.
macro_rules! engine_bug {
    ($(#[$doc:meta])* $name:ident $(state $memory:ty)?; $($method:item)*) => {
        $(#[$doc])*
        pub(crate) struct $name;

        impl PlantedBug for $name {
            fn engine(&self, store: Arc<dyn Store>, sender: Arc<dyn Sender>) -> EnginePorts {
                struct Bug {
                    store: Arc<dyn Store>,
                    $(state: $memory,)?
                }

                #[async_trait]
                impl StoreLayer for Bug {
                    fn inner(&self) -> &dyn Store {
                        &*self.store
                    }
                    $($method)*
                }

                (Arc::new(LayeredStore(Bug { store, $(state: <$memory>::default(),)? })), sender)
            }
        }
    };
}

/// Stops renewing a lease when the response has arrived, before the settle has committed.
pub(crate) struct HeartbeatStopsBeforeSettle;

impl PlantedBug for HeartbeatStopsBeforeSettle {
    fn engine(&self, store: Arc<dyn Store>, sender: Arc<dyn Sender>) -> EnginePorts {
        let sent = Arc::new(Mutex::new(BTreeSet::new()));
        let store = LayeredStore(RenewOnlyUnsent { store, sent: Arc::clone(&sent) });
        (Arc::new(store), Arc::new(RecordSent { sender, sent }))
    }
}

/// Renews only leases whose requests have not ended.
struct RenewOnlyUnsent {
    store: Arc<dyn Store>,
    sent: Arc<Mutex<BTreeSet<LeaseToken>>>,
}

#[async_trait]
impl StoreLayer for RenewOnlyUnsent {
    fn inner(&self) -> &dyn Store {
        &*self.store
    }

    async fn renew(&self, held: &[LeaseRef], lease: Duration) -> Result<Vec<LeaseRef>, StoreError> {
        let unsent: Vec<LeaseRef> = {
            let sent = self.sent.lock().expect("one thread");
            held.iter().filter(|held| !sent.contains(&held.token)).copied().collect()
        };
        self.store.renew(&unsent, lease).await
    }
}

/// Records the tokens whose requests have ended.
struct RecordSent {
    sender: Arc<dyn Sender>,
    sent: Arc<Mutex<BTreeSet<LeaseToken>>>,
}

#[async_trait]
impl Sender for RecordSent {
    async fn send(&self, lease: &Lease, now: Timestamp, timeout: Duration) -> Result<Outcome, LocalShortage> {
        let outcome = self.sender.send(lease, now, timeout).await;
        self.sent.lock().expect("one thread").insert(lease.token);
        outcome
    }
}

engine_bug! {
    /// Asks for leases on new events, and forgets them.
    NewLeasesAreForgotten;

    async fn enqueue(&self, request: EnqueueRequest) -> Result<EnqueueResponse, StoreError> {
        let response = self.store.enqueue(request).await?;
        Ok(EnqueueResponse { leases: Vec::new(), ..response })
    }
}

engine_bug! {
    /// Never renews a lease.
    NoHeartbeat;

    async fn renew(&self, _held: &[LeaseRef], _lease: Duration) -> Result<Vec<LeaseRef>, StoreError> {
        Ok(Vec::new())
    }
}

engine_bug! {
    /// Publishes notices before the settle has committed.
    NoticeBeforeCommit state Mutex<Vec<Notice>>;

    async fn settle(&self, worker: &WorkerId, batch: &[Settlement]) -> Result<Vec<SettleResult>, StoreError> {
        let early = batch.iter().filter_map(|settlement| {
            let transition = &settlement.transition;
            Some(Notice {
                kind: transition.notice_kind()?,
                event_id: transition.event_id().clone(),
                webhook_id: None,
                session_id: None,
                payment_request_id: None,
                attempts: transition.attempt(),
                at: Timestamp::default(),
                endpoint: None,
            })
        });
        self.state.lock().expect("one thread").extend(early);
        self.store.settle(worker, batch).await
    }

    async fn notices(&self, after: Option<NoticeCursor>, limit: usize) -> Result<NoticePage, StoreError> {
        let mut page = self.store.notices(after, limit).await?;
        let early: Vec<Notice> = std::mem::take(&mut *self.state.lock().expect("one thread"));
        for notice in early {
            page.cursor.minor += 1;
            page.notices.push(PublishedNotice { cursor: page.cursor, notice, subject: None });
        }
        Ok(page)
    }
}

/// Treats a missing response as a success.
pub(crate) struct TimeoutIsSuccess;

impl PlantedBug for TimeoutIsSuccess {
    fn engine(&self, store: Arc<dyn Store>, sender: Arc<dyn Sender>) -> EnginePorts {
        (store, Arc::new(TimeoutAsSuccess(sender)))
    }
}

struct TimeoutAsSuccess(Arc<dyn Sender>);

#[async_trait]
impl Sender for TimeoutAsSuccess {
    async fn send(&self, lease: &Lease, now: Timestamp, timeout: Duration) -> Result<Outcome, LocalShortage> {
        match self.0.send(lease, now, timeout).await {
            Ok(Outcome::NoResponse { .. }) => Ok(Outcome::response(200, None, b"")),
            sent => sent,
        }
    }
}

/// Repeats a request when the connection breaks, as a client library might.
pub(crate) struct HiddenResend;

impl PlantedBug for HiddenResend {
    fn engine(&self, store: Arc<dyn Store>, sender: Arc<dyn Sender>) -> EnginePorts {
        (store, Arc::new(Resend(sender)))
    }
}

struct Resend(Arc<dyn Sender>);

#[async_trait]
impl Sender for Resend {
    async fn send(&self, lease: &Lease, now: Timestamp, timeout: Duration) -> Result<Outcome, LocalShortage> {
        match self.0.send(lease, now, timeout).await {
            Ok(Outcome::NoResponse { .. }) => self.0.send(lease, now, timeout).await,
            sent => sent,
        }
    }
}

/// Charges a shortage of the worker's own host to the receiver, as a failed attempt.
pub(crate) struct ShortageIsAnAttempt;

impl PlantedBug for ShortageIsAnAttempt {
    fn engine(&self, store: Arc<dyn Store>, sender: Arc<dyn Sender>) -> EnginePorts {
        (store, Arc::new(ShortageAsFailure(sender)))
    }
}

struct ShortageAsFailure(Arc<dyn Sender>);

#[async_trait]
impl Sender for ShortageAsFailure {
    async fn send(&self, lease: &Lease, now: Timestamp, timeout: Duration) -> Result<Outcome, LocalShortage> {
        let sent = self.0.send(lease, now, timeout).await;
        Ok(sent.unwrap_or_else(|shortage| Outcome::no_response(ErrorClass::Connect, &shortage.to_string())))
    }
}

/// Dates requests by the host's wall clock instead of the store's.
pub(crate) struct RequestsCarryTheHostsTime;

impl PlantedBug for RequestsCarryTheHostsTime {
    fn sender(&self, sender: Arc<dyn Sender>, host: Arc<dyn Clock>) -> Arc<dyn Sender> {
        Arc::new(DateByHost { sender, host })
    }
}

struct DateByHost {
    sender: Arc<dyn Sender>,
    host: Arc<dyn Clock>,
}

#[async_trait]
impl Sender for DateByHost {
    async fn send(
        &self,
        lease: &Lease,
        _now: Timestamp,
        timeout: Duration,
    ) -> Result<Outcome, LocalShortage> {
        self.sender.send(lease, self.host.host_time(), timeout).await
    }
}

engine_bug! {
    /// Drops the results that the store refuses.
    RefusedResultsAreDropped;

    async fn settle(&self, worker: &WorkerId, batch: &[Settlement]) -> Result<Vec<SettleResult>, StoreError> {
        match self.store.settle(worker, batch).await {
            Err(StoreError::Rejected { .. }) => Ok(vec![SettleResult::Stale; batch.len()]),
            settled => settled,
        }
    }
}

engine_bug! {
    /// Claims at its start without knowing whether results can be written.
    NoTrialWrite;

    async fn check_writes(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

engine_bug! {
    /// Ends the renewals of leases whose result was refused.
    RefusedResultsLoseTheirLease state Mutex<BTreeSet<LeaseToken>>;

    async fn settle(&self, worker: &WorkerId, batch: &[Settlement]) -> Result<Vec<SettleResult>, StoreError> {
        let settled = self.store.settle(worker, batch).await;
        if matches!(settled, Err(StoreError::Rejected { .. })) {
            let tokens = batch.iter().map(|settlement| settlement.transition.token());
            self.state.lock().expect("one thread").extend(tokens);
        }
        settled
    }

    async fn renew(&self, held: &[LeaseRef], lease: Duration) -> Result<Vec<LeaseRef>, StoreError> {
        let wanted: Vec<LeaseRef> = {
            let refused = self.state.lock().expect("one thread");
            held.iter().filter(|held| !refused.contains(&held.token)).copied().collect()
        };
        self.store.renew(&wanted, lease).await
    }
}

engine_bug! {
    /// Stops renewing a lease after one error.
    HeartbeatGivesUpAfterOneError state Mutex<BTreeSet<LeaseToken>>;

    async fn renew(&self, held: &[LeaseRef], lease: Duration) -> Result<Vec<LeaseRef>, StoreError> {
        let wanted: Vec<LeaseRef> = {
            let given_up = self.state.lock().expect("one thread");
            held.iter().filter(|held| !given_up.contains(&held.token)).copied().collect()
        };
        let renewed = self.store.renew(&wanted, lease).await;
        if renewed.is_err() {
            self.state.lock().expect("one thread").extend(wanted.iter().map(|held| held.token));
        }
        renewed
    }
}

engine_bug! {
    /// Skips the first notice of every tenth page.
    PublisherSkipsNotices state Mutex<u32>;

    async fn notices(&self, after: Option<NoticeCursor>, limit: usize) -> Result<NoticePage, StoreError> {
        let mut page = self.store.notices(after, limit).await?;
        let mut pages = self.state.lock().expect("one thread");
        *pages += u32::from(!page.notices.is_empty());
        if *pages % 10 == 9 && !page.notices.is_empty() {
            page.notices.remove(0);
        }
        Ok(page)
    }
}

engine_bug! {
    /// Sends an event whose payload cannot be read, without it.
    SendsWithoutPayload;

    async fn read_payload(&self, lease: LeaseRef) -> Result<Option<Bytes>, StoreError> {
        Ok(Some(self.store.read_payload(lease).await.ok().flatten().unwrap_or_default()))
    }
}

engine_bug! {
    /// Renews no lease while its payload is read.
    UnreadLeasesAreNotRenewed state Mutex<BTreeSet<LeaseToken>>;

    async fn read_payload(&self, lease: LeaseRef) -> Result<Option<Bytes>, StoreError> {
        self.state.lock().expect("one thread").insert(lease.token);
        let payload = self.store.read_payload(lease).await;
        self.state.lock().expect("one thread").remove(&lease.token);
        payload
    }

    async fn renew(&self, held: &[LeaseRef], lease: Duration) -> Result<Vec<LeaseRef>, StoreError> {
        let read: Vec<LeaseRef> = {
            let unread = self.state.lock().expect("one thread");
            held.iter().filter(|held| !unread.contains(&held.token)).copied().collect()
        };
        self.store.renew(&read, lease).await
    }
}

/// Counts a payload that cannot be read as a failure of the receiver.
pub(crate) struct UnreadPayloadIsAnAttempt;

impl PlantedBug for UnreadPayloadIsAnAttempt {
    fn engine(&self, store: Arc<dyn Store>, sender: Arc<dyn Sender>) -> EnginePorts {
        (Arc::new(LayeredStore(UnreadAsMarker(store))), Arc::new(MarkerAsFailure(sender)))
    }
}

/// What the bug reads in place of a payload.
const UNREAD: &[u8] = b"not read";

struct UnreadAsMarker(Arc<dyn Store>);

#[async_trait]
impl StoreLayer for UnreadAsMarker {
    fn inner(&self) -> &dyn Store {
        &*self.0
    }

    async fn read_payload(&self, lease: LeaseRef) -> Result<Option<Bytes>, StoreError> {
        Ok(self.0.read_payload(lease).await.unwrap_or_else(|_| Some(Bytes::from_static(UNREAD))))
    }
}

struct MarkerAsFailure(Arc<dyn Sender>);

#[async_trait]
impl Sender for MarkerAsFailure {
    async fn send(&self, lease: &Lease, now: Timestamp, timeout: Duration) -> Result<Outcome, LocalShortage> {
        if lease.payload.expect_loaded() == UNREAD {
            return Ok(Outcome::no_response(ErrorClass::Connect, "the payload cannot be read"));
        }
        self.0.send(lease, now, timeout).await
    }
}

engine_bug! {
    /// Reports leases as released without releasing them.
    ReleasesNothing;

    async fn release(&self, _held: &[LeaseRef]) -> Result<(), StoreError> {
        Ok(())
    }
}

engine_bug! {
    /// Claims payloads of any size, whatever is in flight.
    BytesInFlightAreIgnored;

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        let payload_bytes_max = request.payload_bytes_max.max(1 << 20);
        self.store.claim(&ClaimRequest { payload_bytes_max, event_payload_bytes_max: None, ..request.clone() }).await
    }
}

engine_bug! {
    /// Dead-letters an event at its first 404, although it has attempts left.
    NotFoundIsFinal state Mutex<BTreeMap<LeaseToken, Lease>>;

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        let claimed = self.store.claim(request).await?;
        let leases = claimed.leases.iter().map(|lease| (lease.token, lease.clone()));
        self.state.lock().expect("one thread").extend(leases);
        Ok(claimed)
    }

    async fn settle(&self, worker: &WorkerId, batch: &[Settlement]) -> Result<Vec<SettleResult>, StoreError> {
        let mut batch = batch.to_vec();
        for Settlement { transition, .. } in &mut batch {
            if transition.outcome().http_status() == Some(404) {
                let lease = self.state.lock().expect("one thread")[&transition.token()].clone();
                let last = Lease { max_attempts: lease.attempt(), ..lease };
                let attempted =
                    AttemptResult { outcome: transition.outcome().clone(), duration: transition.duration() };
                *transition = Arc::new(Transition::from_attempt(&last, attempted, &RetryPolicy::default(), RandomDraw(0)));
            }
        }
        self.store.settle(worker, &batch).await
    }
}

engine_bug! {
    /// Never walks over the pending events.
    ExpiresNothing;

    async fn expire(&self, _request: &ExpireRequest) -> Result<ExpireResponse, StoreError> {
        Ok(ExpireResponse::default())
    }
}

engine_bug! {
    /// Closes its circuits when an operator asks for a probe.
    ProbesCloseCircuits;

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        let mut response = self.store.claim(request).await?;
        for probe in std::mem::take(&mut response.probes) {
            let ago = response.now.since(probe.requested_at);
            response.resumed.push(ResumedDestination { destination: probe.destination, ago });
        }
        Ok(response)
    }
}

engine_bug! {
    /// Keeps its circuits open when an operator resumes their destinations.
    ResumesAreIgnored;

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        Ok(ClaimResponse { resumed: Vec::new(), ..self.store.claim(request).await? })
    }
}
