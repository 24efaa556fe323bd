//! Fills free slots, without rounds: as soon as one is free, and with nothing that could not be sent at once.

use std::sync::Arc;
use std::time::Duration;

use posthaste_domain::{ClaimId, Lease};
use posthaste_store::{ClaimRequest, Claimed, HeldLease, StoreError};
use tokio::task::JoinSet;

use crate::backoff::Backoff;
use crate::clock::within;
use crate::deliver::{Delivery, Unsent, deliver};
use crate::phase::Phase;
use crate::supervise::contained;
use crate::worker::Worker;

/// How long a claim waits for results that are tried again before it.
const RESULTS_FIRST_FOR: Duration = Duration::from_secs(5);

/// Claims until the worker drains, then sees what is in flight to its end.
pub(crate) async fn run(worker: Arc<Worker>) {
    let mut claimer = Claimer::of(worker);
    claimer.claim_until_draining().await;
    claimer.release_unanswered().await;
    claimer.finish().await;
}

/// One cycle: up to all slots' worth of due events, each destination as its slots allow, delivered to the end.
pub(crate) async fn once(worker: Arc<Worker>) -> Result<(), StoreError> {
    let mut claimer = Claimer::of(Arc::clone(&worker));
    let mut quota = Quota { total: worker.settings.concurrency, retries: worker.settings.retry_batch };
    while quota.total > 0 && worker.phases.current() == Phase::Running {
        let granted = match claimer.claim(quota).await {
            Ok(granted) => granted,
            Err(error) => {
                // What has been started is seen to its end all the same.
                claimer.release_unanswered().await;
                claimer.finish().await;
                return Err(error);
            }
        };
        quota.total = quota.total.saturating_sub(granted.leases);
        quota.retries = quota.retries.saturating_sub(granted.retries);
        // Nothing more that could be sent at once: a slot must free first, and if none is taken, that was all.
        if granted.leases == 0 && !claimer.one_ends_before_draining().await {
            break;
        }
    }
    claimer.finish().await;
    Ok(())
}

/// How much may still be claimed, beside what the slots allow.
#[derive(Debug, Clone, Copy)]
struct Quota {
    total: usize,
    retries: usize,
}

const NO_QUOTA: Quota = Quota { total: usize::MAX, retries: usize::MAX };

/// What a claim brought.
#[derive(Debug, Clone, Copy)]
struct Granted {
    leases: usize,
    retries: usize,
    filled: Filled,
}

/// How a claim left the worker.
#[derive(Debug, Clone, Copy)]
enum Filled {
    /// No slot is free.
    Full,
    /// Slots are free, and there may be more to fill them with.
    More,
    /// Slots are free, and nothing is due that could be sent.
    Enough,
}

struct Claimer {
    worker: Arc<Worker>,
    /// Kept until the store has answered, so that a lost reply is asked for again.
    claim_id: ClaimId,
    unanswered: bool,
    /// Dropping it aborts them.
    deliveries: JoinSet<Option<Unsent>>,
}

impl Claimer {
    fn of(worker: Arc<Worker>) -> Self {
        Self {
            claim_id: worker.ports.chance.claim_id(),
            unanswered: false,
            worker,
            deliveries: JoinSet::new(),
        }
    }

    async fn claim_until_draining(&mut self) {
        let worker = Arc::clone(&self.worker);
        let clock = &worker.ports.clock;
        let mut wakeups = worker.ports.store.wakeups();
        let mut backoff = Backoff::new();
        // A claim under way is never given up: the leases it brings would be nobody's until they expire.
        while worker.phases.current() == Phase::Running {
            self.reap();
            // After an outage, results of ours that wait for the store go first, or we claim and send their events
            // again.
            let _ = within(&**clock, RESULTS_FIRST_FOR, worker.settler.catch_up()).await;
            if worker.phases.current() != Phase::Running {
                break;
            }
            let claimed = self.claim(NO_QUOTA).await;
            if claimed.is_ok() && backoff.reset() {
                tracing::info!(worker_id = %worker.settings.worker_id, "claiming works again");
            }
            let next = async {
                match claimed.map(|granted| granted.filled) {
                    Ok(Filled::More) => {}
                    Ok(Filled::Full) => worker.slots.freed().await,
                    Ok(Filled::Enough) => tokio::select! {
                        biased;
                        () = worker.slots.freed() => {}
                        () = wakeups.woken() => {}
                        () = clock.sleep(worker.settings.poll_interval) => {}
                    },
                    Err(error) => {
                        tracing::warn!(worker_id = %worker.settings.worker_id, code = error.code(), %error,
                            "nothing could be claimed; trying again");
                        clock.sleep(backoff.next()).await;
                    }
                }
            };
            tokio::select! {
                biased;
                () = worker.phases.reached(Phase::Draining) => {}
                () = next => {}
            }
        }
    }

    async fn claim(&mut self, quota: Quota) -> Result<Granted, StoreError> {
        let free_before = self.worker.slots.frees();
        let request = self.plan(quota);
        if request.limit == 0 {
            self.worker.claiming_works();
            return Ok(Granted { leases: 0, retries: 0, filled: Filled::Full });
        }
        let asked_at = self.worker.ports.clock.monotonic();
        let claimed = self.ask(&request).await?;
        let leases = claimed.leases.len();
        let retries = claimed.leases.iter().filter(|lease| lease.is_retry()).count();
        self.start(claimed.leases, asked_at).await;
        // Slots that freed meanwhile were not asked for; where nothing came of the asking, more asking is in vain.
        let freed_meanwhile = self.worker.slots.frees() != free_before;
        let more = leases >= request.limit || (leases > 0 && freed_meanwhile);
        Ok(Granted { leases, retries, filled: if more { Filled::More } else { Filled::Enough } })
    }

    /// Whatever an answer brings is counted and told here, whoever asked.
    async fn ask(&mut self, request: &ClaimRequest) -> Result<Claimed, StoreError> {
        let worker = &self.worker;
        let answer = contained(worker.ports.store.claim(request)).await;
        self.unanswered = answer.is_err();
        let claimed = answer?;
        worker.claiming_works();
        self.claim_id = worker.ports.chance.claim_id();
        worker.cycle.claimed(&claimed);
        for event_id in &claimed.abandoned {
            tracing::error!(%event_id, worker_id = %worker.settings.worker_id,
                "event abandoned: it lost too many leases in a row");
        }
        if !claimed.abandoned.is_empty() {
            worker.ports.observer.abandoned(claimed.abandoned.len());
            worker.publisher.look();
        }
        Ok(claimed)
    }

    /// The last claim may have been granted leases that we never heard of: asks for them, and for no others.
    async fn release_unanswered(&mut self) {
        if self.unanswered
            && let Ok(claimed) = self.ask(&self.plan(Quota { total: 0, retries: 0 })).await
        {
            let held: Vec<HeldLease> = claimed.leases.iter().map(HeldLease::from).collect();
            release(&self.worker, &held).await;
        }
    }

    /// What can be sent right now: within the slots, and where no circuit is open.
    fn plan(&self, quota: Quota) -> ClaimRequest {
        let worker = &self.worker;
        let free = worker.slots.free();
        let mut free_slots = free.by_destination;
        for (destination, allowed) in worker.circuits.allowed(worker.ports.clock.monotonic()) {
            let slots = free_slots.entry(destination).or_insert(worker.settings.per_destination);
            *slots = (*slots).min(allowed);
        }
        ClaimRequest {
            id: self.claim_id,
            owner: worker.settings.owner.clone(),
            lease: worker.settings.lease.duration(),
            limit: free.total.min(quota.total),
            retries_max: free.retries.min(quota.retries),
            per_destination: worker.settings.per_destination,
            free_slots,
            abandon_after: worker.settings.abandon_after,
        }
    }

    /// Sends what was granted. What should not be sent any more is released.
    async fn start(&mut self, leases: Vec<Lease>, asked_at: Duration) {
        let worker = &self.worker;
        // Of a lease that is a third gone before it arrives, no heartbeat can be relied on to come in time.
        let took = worker.ports.clock.monotonic().saturating_sub(asked_at);
        let too_late = took > worker.settings.lease.duration() / 3;
        let unwanted = too_late || worker.phases.current() != Phase::Running;
        let mut refused = Vec::new();
        for lease in leases {
            match if unwanted { Err(HeldLease::from(&lease)) } else { prepare(worker, lease) } {
                Ok(delivery) => drop(self.deliveries.spawn(deliver(Arc::clone(worker), delivery))),
                Err(held) => refused.push(held),
            }
        }
        release(worker, &refused).await;
    }

    /// Waits for one delivery to end; false when there is none, or when the worker drains: then all are waited for.
    async fn one_ends_before_draining(&mut self) -> bool {
        tokio::select! {
            biased;
            () = self.worker.phases.reached(Phase::Draining) => false,
            ended = self.deliveries.join_next() => ended.map(note_panic).is_some(),
        }
    }

    fn reap(&mut self) {
        while let Some(ended) = self.deliveries.try_join_next() {
            note_panic(ended);
        }
    }

    /// Waits for every delivery. Leases of those that were interrupted are released as they come, together.
    async fn finish(mut self) {
        while let Some(ended) = self.deliveries.join_next().await {
            let mut unsent: Vec<Unsent> = note_panic(ended).into_iter().collect();
            while let Some(ended) = self.deliveries.try_join_next() {
                unsent.extend(note_panic(ended));
            }
            let held: Vec<HeldLease> = unsent.into_iter().map(|unsent| unsent.held).collect();
            release(&self.worker, &held).await;
        }
    }
}

/// Takes a slot and starts the heartbeat, unless the circuit has opened since the claim was planned.
fn prepare(worker: &Worker, lease: Lease) -> Result<Delivery, HeldLease> {
    match worker.circuits.admit(lease.destination_id, worker.ports.clock.monotonic()) {
        None => Err(HeldLease::from(&lease)),
        Some(admission) => Ok(Delivery {
            slot: worker.slots.take(&lease),
            renewing: worker.heartbeat.hold(&lease),
            admission,
            lease,
        }),
    }
}

/// Gives leases back, unless the store cannot be told before they would have expired anyway.
async fn release(worker: &Worker, held: &[HeldLease]) {
    if held.is_empty() {
        return;
    }
    let clock = &worker.ports.clock;
    let give_up_at = clock.monotonic() + worker.settings.lease.duration();
    let mut backoff = Backoff::new();
    worker.leftover.owe(held.len());
    let released = loop {
        match contained(worker.ports.store.release(held)).await {
            Ok(()) => break true,
            Err(error) if error.is_transient() && clock.monotonic() < give_up_at => {
                clock.sleep(backoff.next()).await;
            }
            Err(error) => {
                tracing::warn!(worker_id = %worker.settings.worker_id, code = error.code(), %error,
                    leases = held.len(), "leases were not released; their events wait until they expire");
                break false;
            }
        }
    };
    // What is given back on the way, because a circuit opened, is no leftover of a drain.
    if worker.phases.current() == Phase::Running {
        worker.leftover.forget(held.len());
    } else if released {
        worker.leftover.pay(held.len());
    }
}

/// A delivery that panicked has let go of everything; its lease expires by itself.
fn note_panic(ended: Result<Option<Unsent>, tokio::task::JoinError>) -> Option<Unsent> {
    ended.unwrap_or_else(|error| {
        tracing::error!(%error, "a delivery panicked; this is a bug. Its event is claimed again");
        None
    })
}
