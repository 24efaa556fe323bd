//! The claimer: leases due events as soon as slots are available, and only events that can be sent at once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use posthaste_domain::{ClaimId, Lease, LeasePayload, Timestamp};
use posthaste_store::{ClaimRequest, ClaimResponse, ClaimSlots, LeaseRef, StoreError, Wakeups};

use crate::attempt_log::millis;
use crate::backoff::Backoff;
use crate::claim_budget::ClaimBytes;
use crate::deliver::release_interrupted;
use crate::phase::Phase;
use crate::release::{release_events, release_leases, release_unsent};
use crate::slots::AvailablePayloads;
use crate::store_time::{Reading, SkewChange};
use crate::supervise::catch_store_panic;
use crate::worker::Worker;

/// How much further back than its last answered claim a claim asks for resumed destinations. It covers the time between the
/// start of an operator's transaction and its commit.
const RESUME_OVERLAP: Duration = Duration::from_secs(10);
/// Maximum number of events that one claim requests. A larger one would delay the events that arrive meanwhile.
const CLAIM_MAX: usize = 500;
/// How long a claim waits for more slots after one has become free. A claim has a fixed cost, so it should fill many: it
/// does not wait when a quarter of the slots has become free since the last claim was planned.
const CLAIM_DELAY: Duration = Duration::from_millis(1);
/// How many times a claim waits for more slots while enough claimed events wait in the worker.
const CLAIM_DELAYS_MAX: usize = 20;
/// How many times it does so when new events have arrived, which may be for receivers that have none waiting.
const CLAIM_DELAYS_OF_NEW_EVENTS: usize = 3;
/// Events that must wait in the worker for a claim to wait for more slots.
const STOCK_MIN: usize = 32;
/// How often receivers that have not been used for long are forgotten.
const FORGET_INTERVAL: Duration = Duration::from_secs(10);

/// Claims until the worker drains, then waits for the deliveries in flight.
pub(crate) async fn run(worker: Arc<Worker>) {
    let mut claimer = Claimer::new(Arc::clone(&worker));
    // A worker whose results cannot be written would send events in vain, and again after every restart.
    tokio::select! {
        biased;
        () = worker.phases.reached(Phase::Draining) => {}
        () = worker.settler.wait_for_trial_write() => claimer.claim_until_draining().await,
    }
    claimer.release_unanswered_claim().await;
    claimer.finish_deliveries().await;
}

/// Runs one cycle: claims at most as many due events as the worker has slots in total, and delivers them. A
/// destination with more due events than slots gets the next ones as its slots become free.
pub(crate) async fn run_once(worker: Arc<Worker>) -> Result<(), StoreError> {
    let mut claimer = Claimer::new(Arc::clone(&worker));
    let mut quota = Quota { total: worker.settings.concurrency, retries: worker.settings.retry_batch };
    catch_store_panic(worker.ports.store.check_writes()).await?;
    if let Some(keys) = &worker.ports.reloaded_keys {
        keys.reload(&*worker.ports.store).await?;
    }
    let mut wakeups = worker.ports.store.wakeups();
    while quota.total > 0 && worker.phases.current() == Phase::Running && worker.settler.failure().is_none() {
        let claimed = match claimer.claim(quota).await {
            Ok(claimed) => claimed,
            Err(error) => {
                // Deliveries in flight still finish.
                claimer.release_unanswered_claim().await;
                claimer.finish_deliveries().await;
                return Err(error);
            }
        };
        quota.total = quota.total.saturating_sub(claimed.leases);
        quota.retries = quota.retries.saturating_sub(claimed.retries);
        // The store wakes workers when it has not searched all destinations, or has got new events.
        if claimed.leases > 0 || wakeups.wait().now_or_never().is_some() {
            continue;
        }
        // Nothing more can be sent at once. Continue when a delivery has ended; without one the cycle is complete.
        if !claimer.wait_for_one_delivery().await {
            break;
        }
    }
    claimer.finish_deliveries().await;
    Ok(())
}

/// The number of events that a cycle may still claim. The slots limit each claim further.
#[derive(Debug, Clone, Copy)]
struct Quota {
    total: usize,
    retries: usize,
}

const UNLIMITED: Quota = Quota { total: usize::MAX, retries: usize::MAX };

/// Claims nothing new, but still returns leases granted earlier under the same claim id.
const ONLY_GRANTED_EARLIER: Quota = Quota { total: 0, retries: 0 };

/// The number of leases that a claim was granted, and when to claim next.
#[derive(Debug, Clone, Copy)]
struct ClaimSummary {
    leases: usize,
    retries: usize,
    next: NextClaim,
}

/// When to make the next claim.
#[derive(Debug, Clone, Copy)]
enum NextClaim {
    /// All slots are used: claim when a slot is released.
    AfterRelease,
    /// A local shortage has slowed sending down: check again after this time.
    AfterPause(Duration),
    /// Many slots are available and more events may be due: claim at once.
    Now,
    /// More events may be due, and slots have become free during the claim: claim when more are free.
    WithMoreSlots,
    /// Slots are available, but no due event can be sent: claim after a wake-up, a release, the due time of a retry or
    /// the poll interval.
    AfterWakeup,
}

struct Claimer {
    worker: Arc<Worker>,
    /// Reused until the store has answered, so that repeating a claim returns the leases of a lost reply.
    claim_id: ClaimId,
    /// The last claim failed; the store may have granted leases whose reply was lost.
    is_unanswered: bool,
    claim_bytes: ClaimBytes,
    /// When the last answered claim was sent, or when claiming began.
    answered_at: Duration,
    /// When unused receivers were last forgotten.
    forgot_at: Duration,
    /// Number of deliveries that had ended when the last claim was planned.
    ended_before: u64,
}

impl Claimer {
    fn new(worker: Arc<Worker>) -> Self {
        Self {
            claim_id: worker.ports.random.new_claim_id(),
            is_unanswered: false,
            claim_bytes: ClaimBytes::default(),
            answered_at: worker.ports.clock.monotonic(),
            forgot_at: worker.ports.clock.monotonic(),
            ended_before: 0,
            worker,
        }
    }

    async fn claim_until_draining(&mut self) {
        let worker = Arc::clone(&self.worker);
        let clock = &worker.ports.clock;
        let mut wakeups = worker.ports.store.wakeups();
        let mut backoff = Backoff::new();
        // Never cancel a claim in progress: its leases would stay orphaned until they expire.
        while worker.phases.current() == Phase::Running {
            self.tend_deliveries();
            // Claim nothing while results cannot be written: the results of the claimed events would join them.
            tokio::select! {
                biased;
                () = worker.phases.reached(Phase::Draining) => break,
                () = worker.settler.in_order() => {}
            }
            let claimed = self.claim(UNLIMITED).await;
            if claimed.is_ok() && backoff.reset() {
                tracing::info!(worker_id = %worker.settings.worker_id, "claiming works again");
            }
            let wait = async {
                match claimed.map(|claimed| claimed.next) {
                    Ok(NextClaim::Now) => {}
                    Ok(NextClaim::WithMoreSlots) => self.wait_for_more_slots(&mut wakeups).await,
                    Ok(NextClaim::AfterRelease) => {
                        worker.slots.released().await;
                        self.wait_for_more_slots(&mut wakeups).await;
                    }
                    Ok(NextClaim::AfterPause(pause)) => clock.sleep(pause).await,
                    Ok(NextClaim::AfterWakeup) => tokio::select! {
                        biased;
                        () = worker.slots.released() => self.wait_for_more_slots(&mut wakeups).await,
                        () = wakeups.wait() => {}
                        () = worker.due_times.reached(&**clock) => {}
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
                () = wait => {}
            }
        }
    }

    /// Makes one claim and starts a delivery for each granted lease.
    async fn claim(&mut self, quota: Quota) -> Result<ClaimSummary, StoreError> {
        self.ended_before = self.worker.slots.ended_count();
        let unthrottled = match self.check_shortages() {
            Ok(available) => available,
            Err(pause) => {
                self.worker.record_claim();
                self.worker.slots.record_no_claim();
                return Ok(ClaimSummary { leases: 0, retries: 0, next: NextClaim::AfterPause(pause) });
            }
        };
        let request = self.plan_claim(Quota { total: quota.total.min(unthrottled), ..quota });
        if request.limit == 0 {
            self.worker.record_claim();
            self.worker.slots.record_no_claim();
            return Ok(ClaimSummary { leases: 0, retries: 0, next: NextClaim::AfterRelease });
        }
        let requested_at = self.worker.ports.clock.monotonic();
        self.worker.due_times.remove_reached(requested_at);
        let response = match self.call_store(&request).await {
            Ok(response) => response,
            Err(error) => {
                self.worker.slots.record_no_claim();
                return Err(error);
            }
        };
        self.answered_at = requested_at;
        let knows_kept_back = !response.is_limited_by_bytes || !response.kept_back.is_empty();
        for destination in &response.kept_back {
            self.worker.slots.mark_limited(*destination);
        }
        self.worker.slots.record_claim(response.leases.len() < request.limit && knows_kept_back);
        let released_circuits = self.close_resumed_circuits(&response) + self.allow_probes(&response);
        self.worker.ports.profiles.record_claim(&response, requested_at);
        let leases = response.leases.len();
        let retries = response.leases.iter().filter(|lease| lease.is_retry()).count();
        // While no large payload may be claimed, only full claims leave more that could be.
        let is_limited_by_bytes = response.is_limited_by_bytes
            && (request.event_payload_bytes_max.is_none()
                || loaded_bytes(&response) >= request.payload_bytes_max / 2);
        self.start_deliveries(response.leases, requested_at).await;
        // Slots released during the call were not part of the request. They are worth another claim only if this one
        // found anything. The same holds for events whose payloads did not fit.
        let released_meanwhile = self.worker.slots.ended_count() != self.ended_before;
        let next = if released_circuits > 0 || (leases > 0 && is_limited_by_bytes) || leases >= CLAIM_MAX {
            NextClaim::Now
        } else if leases >= request.limit || (leases > 0 && released_meanwhile) {
            NextClaim::WithMoreSlots
        } else {
            NextClaim::AfterWakeup
        };
        Ok(ClaimSummary { leases, retries, next })
    }

    /// Closes the circuits of destinations that an operator has resumed. Returns how many it closed.
    fn close_resumed_circuits(&self, response: &ClaimResponse) -> usize {
        let worker = &self.worker;
        let closed = worker.circuits.close_resumed(&response.resumed, worker.ports.clock.monotonic());
        for (destination, open_for) in &closed {
            tracing::info!(destination_id = destination.0, worker_id = %worker.settings.worker_id,
                open_ms = millis(*open_for), "circuit closed: an operator resumed the destination");
        }
        closed.len()
    }

    /// Allows the probes for which operators have asked. Returns how many.
    fn allow_probes(&self, response: &ClaimResponse) -> usize {
        let worker = &self.worker;
        let now = worker.ports.clock.monotonic();
        let allowed = worker.circuits.allow_probes(&response.probes, response.now, now);
        for destination in &allowed {
            tracing::info!(destination_id = destination.0, worker_id = %worker.settings.worker_id,
                "circuit allows a probe: an operator asked for one");
        }
        allowed.len()
    }

    /// Returns how many deliveries may start despite local shortages, or how long to wait. Logs shortages that are over.
    fn check_shortages(&self) -> Result<usize, Duration> {
        let worker = &self.worker;
        let now = worker.ports.clock.monotonic();
        for ended in worker.shortages.take_ended(now) {
            tracing::info!(worker_id = %worker.settings.worker_id, resource = ended.as_str(),
                "requests are sent again; nothing was lacking for a minute");
        }
        worker.shortages.available(worker.slots.used(), now)
    }

    /// Sends the claim to the store, then counts its leases and reports abandoned events.
    async fn call_store(&mut self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        let worker = &self.worker;
        let requested_at = worker.ports.clock.monotonic();
        let result = catch_store_panic(worker.ports.store.claim(request)).await;
        let took = worker.ports.clock.monotonic().saturating_sub(requested_at);
        self.is_unanswered = result.is_err();
        match &result {
            Ok(response) => self.claim_bytes.record_answered(took, loaded_bytes(response)),
            Err(_) => self.claim_bytes.record_unanswered(),
        }
        let response = result?;
        worker.record_claim();
        record_store_time(worker, response.now, requested_at);
        self.claim_id = worker.ports.random.new_claim_id();
        worker.cycle.count_failed(response.abandoned.len());
        worker.activity.count_failed(response.abandoned.len());
        for event_id in &response.abandoned {
            tracing::error!(%event_id, worker_id = %worker.settings.worker_id,
                "event abandoned: it lost too many leases in a row");
        }
        if !response.abandoned.is_empty() {
            worker.ports.observer.on_abandoned(response.abandoned.len());
            worker.publisher.wake();
        }
        Ok(response)
    }

    /// If the store did not answer the last claim, repeats it to get the leases that it may have granted, and releases
    /// them. The store itself releases those whose payloads do not fit.
    async fn release_unanswered_claim(&mut self) {
        if self.is_unanswered
            && let Ok(response) = self.call_store(&self.plan_claim(ONLY_GRANTED_EARLIER)).await
        {
            let leases: Vec<LeaseRef> = response.leases.iter().map(LeaseRef::from).collect();
            release_leases(&self.worker, &leases).await;
        }
    }

    /// Builds a request for the events that can be sent now, or soon: within the available slots and payload bytes. The worker
    /// itself answers for each destination.
    fn plan_claim(&self, quota: Quota) -> ClaimRequest {
        let worker = &self.worker;
        let available = worker.slots.available();
        let claim_bytes = self.claim_bytes.limit();
        let (payload_bytes_max, event_payload_bytes_max) = match available.payloads {
            AvailablePayloads::AnySize(bytes) => (claim_bytes.min(bytes), None),
            AvailablePayloads::OnlySmall(event_bytes) => (claim_bytes, Some(event_bytes)),
        };
        let inline_payload_bytes_max = worker.settings.inline_payload_bytes_max;
        let event_payload_bytes_max = if worker.payload_reads.are_paused(worker.ports.clock.monotonic()) {
            event_payload_bytes_max.into_iter().chain([inline_payload_bytes_max]).min()
        } else {
            event_payload_bytes_max
        };
        let limit = available.total.min(worker.unsettled_room()).min(CLAIM_MAX).min(quota.total);
        ClaimRequest {
            id: self.claim_id,
            owner: worker.settings.lease_owner.clone(),
            lease: worker.settings.lease.duration(),
            limit,
            retries_max: available.retries.min(quota.retries),
            slots: Arc::clone(worker) as Arc<dyn ClaimSlots>,
            pace_slots: available.by_pace,
            payload_bytes_max,
            event_payload_bytes_max,
            inline_payload_bytes_max,
            abandon_after: worker.settings.abandon_after,
            resumed_within: worker.ports.clock.monotonic().saturating_sub(self.answered_at) + RESUME_OVERLAP,
        }
    }

    /// Starts a delivery for each lease. Releases the leases of events that should no longer be sent.
    async fn start_deliveries(&mut self, leases: Vec<Lease>, requested_at: Duration) {
        let worker = &self.worker;
        if worker.sends_no_more(requested_at) {
            let leases: Vec<LeaseRef> = leases.iter().map(LeaseRef::from).collect();
            return release_unsent(worker, &leases).await;
        }
        let now = worker.ports.clock.monotonic();
        let claimed = worker.accept_leases(in_turns(leases), requested_at);
        worker.lanes.start(worker, claimed.filter_map(|event| worker.slots.add(event, now)));
    }

    /// Waits a moment for more slots to become free, unless many have since the last claim was planned. While enough claimed
    /// events wait in the worker, it waits longer, for a larger claim: a third of those events may be sent meanwhile.
    async fn wait_for_more_slots(&self, wakeups: &mut Wakeups) {
        let worker = &self.worker;
        let concurrency = worker.settings.concurrency;
        let mut delays_max = CLAIM_DELAYS_MAX;
        let mut delays = 0;
        while delays < delays_max {
            let waiting = worker.slots.waiting();
            let has_stock = waiting >= worker.slots.in_flight().max(STOCK_MIN);
            let enough = if has_stock { (waiting / 2).max(concurrency / 4) } else { concurrency / 4 };
            let ended = worker.slots.ended_count() - self.ended_before;
            if ended >= u64::try_from(enough).unwrap_or(u64::MAX) {
                return;
            }
            tokio::select! {
                biased;
                () = worker.ports.clock.sleep(CLAIM_DELAY) => delays += 1,
                () = wakeups.wait(), if delays_max == CLAIM_DELAYS_MAX => delays_max = CLAIM_DELAYS_OF_NEW_EVENTS,
            }
            // Although deliveries have ended, hosts that may have stopped answering hold all slots but those for others.
            let serves_first_claims = ended > 0 && worker.slots.are_full();
            if delays > 0 && (!has_stock || serves_first_claims) {
                return;
            }
        }
    }

    /// Waits until a delivery has ended since the last claim was planned. Returns false if none is in flight, or if the worker
    /// drains.
    async fn wait_for_one_delivery(&self) -> bool {
        if self.worker.slots.ended_count() != self.ended_before {
            return true;
        }
        if self.worker.slots.used() == 0 {
            return false;
        }
        tokio::select! {
            biased;
            () = self.worker.phases.reached(Phase::Draining) => false,
            () = self.worker.slots.ended() => true,
        }
    }

    /// Removes lanes that have ended, starts events that wait although they may be sent, and forgets unused receivers.
    fn tend_deliveries(&mut self) {
        let worker = &self.worker;
        worker.lanes.reap();
        worker.lanes.start(worker, worker.slots.start_waiting());
        let now = worker.ports.clock.monotonic();
        if self.forgot_at + FORGET_INTERVAL <= now {
            worker.slots.forget_unused(now);
            self.forgot_at = now;
        }
    }

    /// Releases the events that wait, and waits for the others. Releases the leases of interrupted deliveries in batches as
    /// they end, and those of results that cannot be written before the drain ends.
    async fn finish_deliveries(self) {
        let worker = &self.worker;
        if worker.phases.current() != Phase::Running {
            release_events(worker, worker.slots.close()).await;
        }
        while worker.slots.used() > 0 && worker.phases.current() == Phase::Running {
            worker.lanes.start(worker, worker.slots.start_waiting());
            tokio::select! {
                biased;
                () = worker.phases.reached(Phase::Draining) => {}
                () = worker.slots.ended() => {}
            }
        }
        release_events(worker, worker.slots.close()).await;
        loop {
            // Read first: a new event starts its lane before its reservation ends.
            let has_reservations = worker.slots.has_reservations();
            while let Some(interrupted) = worker.lanes.join().await {
                release_interrupted(worker, interrupted).await;
            }
            if !has_reservations {
                break;
            }
            worker.slots.ended().await;
        }
        worker.settler.finished().await;
        release_leases(worker, &worker.settler.take_given_up()).await;
    }
}

/// Orders leases so that hosts take turns: the first of each host, then the second of each, and so on. If there are too few
/// places for all, every host gets some.
fn in_turns(leases: Vec<Lease>) -> Vec<Lease> {
    let mut of_host: BTreeMap<String, usize> = BTreeMap::new();
    let mut turns: Vec<(usize, Lease)> = Vec::with_capacity(leases.len());
    for lease in leases {
        let origin = lease.destination_url.origin();
        let turn = match of_host.get_mut(origin) {
            Some(turn) => turn,
            None => of_host.entry(origin.to_owned()).or_default(),
        };
        *turn += 1;
        turns.push((*turn, lease));
    }
    turns.sort_by_key(|(turn, _)| *turn);
    turns.into_iter().map(|(_, lease)| lease).collect()
}

/// Returns the size of the payloads that a response contains.
fn loaded_bytes(response: &ClaimResponse) -> usize {
    let payloads = response.leases.iter().map(|lease| &lease.payload);
    payloads.filter(|payload| !payload.is_stored()).map(LeasePayload::len).sum()
}

/// Takes the store's time from a claim's response. Logs when the host's clock begins or ceases to differ from it.
fn record_store_time(worker: &Worker, now: Timestamp, requested_at: Duration) {
    let clock = &worker.ports.clock;
    let reading = Reading { now, requested_at, received_at: clock.monotonic() };
    let worker_id = &worker.settings.worker_id;
    match worker.store_time.record(reading, clock.host_time()) {
        Some(SkewChange::Appeared(skew)) => {
            tracing::warn!(%worker_id, skew_seconds = skew.as_secs_f64(),
                "this host's clock differs from the store's; requests carry the store's time");
        }
        Some(SkewChange::Ended(skew)) => {
            tracing::info!(%worker_id, skew_seconds = skew.as_secs_f64(),
                "this host's clock agrees with the store's again");
        }
        None => {}
    }
}
