//! The ports of the engine in a crowd simulation: a store with latency, simulated receivers, and a clock that is right.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use posthaste_domain::{ErrorClass, Lease, Outcome, Timestamp, WorkerId};
use posthaste_engine::{Clock, LocalShortage, Sender};
use posthaste_store::{ClaimRequest, ClaimResponse, SettleResult, Settlement, Store, StoreError, StoreLayer};

use super::CrowdBehavior;
use super::observer::CrowdObserver;
use crate::random::SeededRandom;
use crate::time::{WorldClock, sleep};

/// A store whose claims and settles take a few milliseconds.
pub(super) struct DelayedStore {
    pub(super) inner: Arc<dyn Store>,
    pub(super) random: Arc<SeededRandom>,
}

#[async_trait]
impl StoreLayer for DelayedStore {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        sleep(self.random.millis(1..4)).await;
        let claimed = self.inner.claim(request).await;
        sleep(self.random.millis(1..4)).await;
        claimed
    }

    async fn settle(&self, worker: &WorkerId, batch: &[Settlement]) -> Result<Vec<SettleResult>, StoreError> {
        sleep(self.random.millis(1..4)).await;
        let settled = self.inner.settle(worker, batch).await;
        sleep(self.random.millis(1..4)).await;
        settled
    }
}

/// Sends requests to the simulated receivers, and reports each to the observer.
pub(super) struct CrowdSender {
    pub(super) observer: Arc<CrowdObserver>,
    pub(super) random: Arc<SeededRandom>,
}

impl CrowdSender {
    /// Returns after what time the receiver answers, and what. None never answers.
    fn plan_response(&self, url: &str, timeout: Duration) -> Option<(Duration, Outcome)> {
        let accepted = Outcome::response(200, None, b"thanks");
        Some(match self.observer.behavior_of(url) {
            None | Some(CrowdBehavior::Answering) => (self.random.millis(1..20), accepted),
            Some(CrowdBehavior::Crawling) => (timeout * 9 / 10, accepted),
            Some(CrowdBehavior::Failing) => (Duration::from_millis(1), Outcome::response(500, None, b"no")),
            Some(CrowdBehavior::Hanging) => return None,
        })
    }
}

#[async_trait]
impl Sender for CrowdSender {
    async fn send(
        &self,
        lease: &Lease,
        _now: Timestamp,
        timeout: Duration,
    ) -> Result<Outcome, LocalShortage> {
        let url = lease.destination_url.as_str();
        let request = self.observer.begin_request(&lease.event_id, url);
        let outcome = match self.plan_response(url, timeout) {
            Some((after, outcome)) => {
                sleep(after).await;
                outcome
            }
            None => {
                sleep(timeout).await;
                Outcome::no_response(ErrorClass::Timeout, "no response in time")
            }
        };
        request.end(&outcome);
        Ok(outcome)
    }
}

/// A clock that keeps the simulated time.
pub(super) struct TrueClock(pub(super) WorldClock);

impl Clock for TrueClock {
    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(sleep(duration))
    }

    fn host_time(&self) -> Timestamp {
        self.0.true_time()
    }
}
