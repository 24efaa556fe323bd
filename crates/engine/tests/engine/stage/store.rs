//! The memory store behind a door that can be watched and shut.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use posthaste_domain::{EventId, WorkerId};
use posthaste_engine::{Clock as _, TokioClock};
use posthaste_store::{
    CircuitReport, ClaimRequest, ClaimResponse, EnqueueRequest, EnqueueResponse, LeaseRef, MaintenanceReport,
    NoticeCursor, NoticePage, Retention, SettleResult, Settlement, Store, StoreError, StoreLayer,
};
use posthaste_store_memory::MemoryStore;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Call {
    Enqueue,
    Claim,
    Renew,
    Settle,
    Release,
    Notices,
    Maintain,
    ReportCircuits,
}

pub(crate) struct WatchedStore {
    memory: MemoryStore,
    calls: Mutex<BTreeMap<Call, usize>>,
    failures: Mutex<BTreeMap<Call, StoreError>>,
    refused_event: Mutex<Option<EventId>>,
    unrenewable_event: Mutex<Option<EventId>>,
    latency: Mutex<Duration>,
    replies_to_lose: Mutex<BTreeMap<Call, usize>>,
    panics: Mutex<BTreeSet<Call>>,
    clock: TokioClock,
}

impl WatchedStore {
    pub(crate) fn over(memory: MemoryStore) -> Self {
        Self {
            memory,
            calls: Mutex::default(),
            failures: Mutex::default(),
            refused_event: Mutex::default(),
            unrenewable_event: Mutex::default(),
            latency: Mutex::default(),
            replies_to_lose: Mutex::default(),
            panics: Mutex::default(),
            clock: TokioClock::start(),
        }
    }

    pub(crate) fn calls(&self, call: Call) -> usize {
        self.calls.lock().expect("one thread").get(&call).copied().unwrap_or_default()
    }

    /// From now on, these calls fail.
    pub(crate) fn fail(&self, calls: &[Call]) {
        let error = StoreError::Unavailable { reason: "as told".into() };
        let mut failures = self.failures.lock().expect("one thread");
        failures.extend(calls.iter().map(|call| (*call, error.clone())));
    }

    /// From now on, every call succeeds.
    pub(crate) fn heal(&self) {
        self.failures.lock().expect("one thread").clear();
    }

    /// A settle that names this event is understood and refused.
    pub(crate) fn refuse_settle_of(&self, event_id: &EventId) {
        *self.refused_event.lock().expect("one thread") = Some(event_id.clone());
    }

    /// A renewal that names this event is understood and refused.
    pub(crate) fn refuse_renewal_of(&self, event_id: &EventId) {
        *self.unrenewable_event.lock().expect("one thread") = Some(event_id.clone());
    }

    /// From now on, every claim takes this long before it commits.
    pub(crate) fn claims_take(&self, latency: Duration) {
        *self.latency.lock().expect("one thread") = latency;
    }

    /// The next replies to these calls are lost, after they have committed.
    pub(crate) fn lose_replies(&self, call: Call, count: usize) {
        self.replies_to_lose.lock().expect("one thread").insert(call, count);
    }

    fn replies<T>(&self, call: Call, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        let mut to_lose = self.replies_to_lose.lock().expect("one thread");
        match to_lose.get_mut(&call) {
            Some(left @ 1..) => {
                *left -= 1;
                Err(StoreError::Unavailable { reason: "reply lost, as told".into() })
            }
            _ => answer,
        }
    }

    /// The next of these calls panics, as an adapter might on what it finds.
    pub(crate) fn panic_once(&self, call: Call) {
        self.panics.lock().expect("one thread").insert(call);
    }

    fn passes(&self, call: Call) -> Result<(), StoreError> {
        if self.panics.lock().expect("one thread").remove(&call) {
            // Unwinds without a message on the terminal.
            std::panic::resume_unwind(Box::new("as told"));
        }
        *self.calls.lock().expect("one thread").entry(call).or_default() += 1;
        self.failures.lock().expect("one thread").get(&call).cloned().map_or(Ok(()), Err)
    }
}

pub(crate) const ALL_CALLS: [Call; 8] = [
    Call::Enqueue,
    Call::Claim,
    Call::Renew,
    Call::Settle,
    Call::Release,
    Call::Notices,
    Call::Maintain,
    Call::ReportCircuits,
];

#[async_trait]
impl StoreLayer for WatchedStore {
    fn inner(&self) -> &dyn Store {
        &self.memory
    }

    async fn enqueue(&self, request: EnqueueRequest) -> Result<EnqueueResponse, StoreError> {
        self.passes(Call::Enqueue)?;
        self.memory.enqueue(request).await
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        self.passes(Call::Claim)?;
        let latency = *self.latency.lock().expect("one thread");
        if !latency.is_zero() {
            self.clock.sleep(latency).await;
        }
        self.replies(Call::Claim, self.memory.claim(request).await)
    }

    async fn renew(&self, held: &[LeaseRef], lease: Duration) -> Result<Vec<LeaseRef>, StoreError> {
        self.passes(Call::Renew)?;
        let unrenewable = self.unrenewable_event.lock().expect("one thread").clone();
        let key =
            unrenewable.and_then(|event_id| self.memory.with_state(|state| state.key_of(&event_id).ok()));
        if held.iter().any(|held| Some(held.key) == key) {
            return Err(StoreError::Rejected { reason: "as told".into() });
        }
        self.memory.renew(held, lease).await
    }

    async fn settle(&self, worker: &WorkerId, batch: &[Settlement]) -> Result<Vec<SettleResult>, StoreError> {
        self.passes(Call::Settle)?;
        let refused = self.refused_event.lock().expect("one thread").clone();
        if batch.iter().any(|settlement| Some(settlement.transition.event_id()) == refused.as_ref()) {
            return Err(StoreError::Rejected { reason: "as told".into() });
        }
        self.replies(Call::Settle, self.memory.settle(worker, batch).await)
    }

    async fn release(&self, held: &[LeaseRef]) -> Result<(), StoreError> {
        self.passes(Call::Release)?;
        self.memory.release(held).await
    }

    async fn report_circuits(&self, reports: &[CircuitReport]) -> Result<(), StoreError> {
        self.passes(Call::ReportCircuits)?;
        self.memory.report_circuits(reports).await
    }

    async fn notices(&self, after: Option<NoticeCursor>, limit: usize) -> Result<NoticePage, StoreError> {
        self.passes(Call::Notices)?;
        self.memory.notices(after, limit).await
    }

    async fn maintain(&self, retention: &Retention) -> Result<MaintenanceReport, StoreError> {
        self.passes(Call::Maintain)?;
        self.memory.maintain(retention).await
    }
}
