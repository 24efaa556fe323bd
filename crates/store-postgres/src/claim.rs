//! Claims: look for claimable rows, and grant leases on as many as fit the request.
//!
//! A claim takes what earlier looks have found. It looks for more if that may not fill the request, and at least every
//! [`LOOK_INTERVAL`], in the same round trip as the grant. So a claim that returns fewer leases than requested has looked.
//! A claim repeated under its id returns the leases that it was granted before and still holds.

mod abandon;
mod blocked;
mod grant;
mod grant_sql;
mod granted;
mod limited;
mod look;
mod receivers;
mod repeat;

use std::time::Duration;

use futures_util::future::join;
use posthaste_claimable::{ClaimBudget, ClaimPlan, ClaimableIndex, DiscoveryCursors};
use posthaste_domain::{DestinationId, EventId, Timestamp};
use posthaste_store::{ClaimRequest, ClaimResponse, RequestedProbe, ResumedDestination, StoreError};
use tokio::time::Instant;

pub(crate) use blocked::BlockedDestinations;
pub(crate) use grant::grant_in_transaction;
pub(crate) use look::try_look;

use crate::StoreState;
use crate::session::Session;
use crate::sweep;
use granted::GrantedLeases;
use look::{Look, LookRows};

/// How long claims may take what earlier looks have found, without looking again. New destinations wait that long beside a
/// backlog.
pub(crate) const LOOK_INTERVAL: Duration = Duration::from_millis(3);
/// The number of rounds that grant nothing because payloads do not fit the byte limits, after which a claim ends. Each
/// round reads hundreds of destinations.
const FRUITLESS_ROUNDS_MAX: usize = 4;

/// The rows that this process has discovered, and the positions from which discovery continues.
#[derive(Default)]
pub(crate) struct DiscoveryState {
    pub(crate) claimable: ClaimableIndex,
    pub(crate) cursors: DiscoveryCursors,
    /// The first sweep has read the destinations up to this one, and not yet those after it.
    pub(crate) unswept_after: Option<i64>,
    /// When discovery last looked for rows.
    pub(crate) looked_at: Option<Instant>,
}

impl DiscoveryState {
    /// Returns whether the last look is older than this.
    pub(crate) fn is_look_older_than(&self, age: Duration) -> bool {
        self.looked_at.is_none_or(|at| now() >= at + age)
    }

    /// Returns the server's clock: as the last look read it, and since then by this host's clock.
    fn now(&self) -> Timestamp {
        self.cursors.now().after(self.looked_at.map_or(Duration::ZERO, |at| now() - at))
    }
}

#[expect(clippy::disallowed_methods, reason = "paces looks for rows; no event's timing depends on it")]
fn now() -> Instant {
    Instant::now()
}

pub(crate) async fn claim(store: &StoreState, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
    // Claims of one process run one after the other: each takes every row that fits, and plans with the index that the
    // previous claim left.
    let mut discovery = store.discovery.lock().await;
    let response = store.sessions.dispatch.with(async |session| {
        if !discovery.cursors.has_started() {
            sweep::start_discovery(session, store, &mut discovery).await?;
        }
        let claim = Claim::new(session, store, request);
        claim.run(&mut discovery).await
    });
    let response = response.await;
    if response.is_err() {
        // The next connection may lead to another server that has fewer rows.
        *discovery = DiscoveryState::default();
    }
    response
}

/// A claim in progress.
struct Claim<'a> {
    session: &'a Session,
    store: &'a StoreState,
    request: &'a ClaimRequest,
    budget: ClaimBudget,
    leases: GrantedLeases,
    abandoned: Vec<EventId>,
    resumed: Vec<ResumedDestination>,
    updated: Vec<DestinationId>,
    probes: Vec<RequestedProbe>,
    /// The server's clock, once the claim has looked.
    looked_at: Option<Timestamp>,
}

impl<'a> Claim<'a> {
    fn new(session: &'a Session, store: &'a StoreState, request: &'a ClaimRequest) -> Self {
        Self {
            session,
            store,
            request,
            budget: ClaimBudget::new(request),
            leases: GrantedLeases::default(),
            abandoned: Vec::new(),
            resumed: Vec::new(),
            updated: Vec::new(),
            probes: Vec::new(),
            looked_at: None,
        }
    }

    async fn run(mut self, discovery: &mut DiscoveryState) -> Result<ClaimResponse, tokio_postgres::Error> {
        // Terminates: the claim looks once, and each other round removes the ranges that it claimed from the index, or
        // keeps back a destination whose next payload does not fit. One round is almost always enough.
        let mut fruitless_rounds = 0;
        let mut has_failed = false;
        for released in self.store.blocked.take_released() {
            discovery.claimable.record_resume(released);
        }
        loop {
            receivers::read_receivers(self.session, &mut discovery.claimable).await?;
            let plan = discovery.claimable.plan(&self.budget, discovery.now());
            for destination in &plan.kept_back {
                self.budget.keep_back(*destination);
            }
            let is_end = plan.is_empty() || fruitless_rounds >= FRUITLESS_ROUNDS_MAX;
            let has_looked = self.looked_at.is_some();
            let leases_before = self.leases.len();
            // A look tells whether the claim is a repeated one. A repeated claim takes no lease over, and is granted none.
            let fills = self.fills(&plan);
            let must_look_first = !plan.takeovers.is_empty() || has_failed || (is_end && !self.is_filled());
            if !has_looked && must_look_first {
                let look = Look::prepare(self.session, discovery, self.request, false).await?;
                let rows = look.send(self.session).await?;
                if let Some(repeated) = self.record_look(discovery, &look, &rows).await? {
                    return Ok(repeated);
                }
                continue;
            } else if is_end {
                break;
            } else if !has_looked && (!fills || discovery.is_look_older_than(self.store.config.look_interval))
            {
                let look = Look::prepare(self.session, discovery, self.request, fills).await?;
                let session = self.session;
                let (granted, rows) = join(self.grant(discovery, &plan), look.send(session)).await;
                granted?;
                if let Some(repeated) = self.record_look(discovery, &look, &rows?).await? {
                    return Ok(repeated);
                }
            } else {
                self.grant(discovery, &plan).await?;
            }
            has_failed = self.leases.len() == leases_before;
            fruitless_rounds += usize::from(has_failed && self.budget.is_limited_by_bytes());
        }
        let is_limited_by_bytes = self.budget.is_limited_by_bytes();
        let has_seen_all = fruitless_rounds < FRUITLESS_ROUNDS_MAX;
        let kept_back = if has_seen_all { self.budget.kept_back().collect() } else { Vec::new() };
        discovery.claimable.restore_locked(self.budget.into_locked());
        let now = discovery.now();
        if let Some(until) = self.store.blocked.next_end(now) {
            self.store.blocked.wake_in(until.since(now), &self.store.waker);
        }
        self.store.outstanding.add(self.leases.take_references());
        Ok(ClaimResponse {
            leases: self.leases.into_leases(),
            abandoned: self.abandoned,
            resumed: self.resumed,
            updated: self.updated,
            probes: self.probes,
            now: self.looked_at.unwrap_or_else(|| discovery.now()),
            is_limited_by_bytes,
            kept_back,
        })
    }

    fn is_filled(&self) -> bool {
        self.request.limit > 0 && self.leases.len() >= self.request.limit
    }

    /// Returns whether the plan fills the request, if every row of the plan is still claimable.
    fn fills(&self, plan: &ClaimPlan) -> bool {
        let planned: usize = plan.range_claims.iter().map(|claim| claim.limit).sum();
        self.leases.len() + planned >= self.request.limit
    }

    /// Grants the leases of a plan.
    async fn grant(
        &mut self,
        discovery: &mut DiscoveryState,
        plan: &ClaimPlan,
    ) -> Result<(), tokio_postgres::Error> {
        let is_checked = self.looked_at.is_some() || !self.leases.is_empty();
        let now = discovery.now();
        let (claimable, budget, leases) = (&mut discovery.claimable, &mut self.budget, &mut self.leases);
        let (session, request) = (self.session, self.request);
        let limited =
            grant::execute_plan(session, claimable, request, plan, is_checked, budget, leases).await?;
        if limited.is_empty() {
            return Ok(());
        }
        let has_looked = self.looked_at.is_some();
        limited::grant(session, self.store, claimable, request, &limited, has_looked, now, budget, leases)
            .await
    }

    /// Adds what a look found to the index. Returns the response if the claim is a repeated one that still holds leases.
    async fn record_look(
        &mut self,
        discovery: &mut DiscoveryState,
        look: &Look,
        rows: &LookRows,
    ) -> Result<Option<ClaimResponse>, tokio_postgres::Error> {
        let found = look.record(rows, self.store, discovery)?;
        self.looked_at = Some(found.now);
        // A claim that has been granted leases in this call is known because of them.
        if found.is_claim_known && self.leases.is_empty() {
            let (mut leases, is_limited_by_bytes) = repeat::repeat_claim(self.session, self.request).await?;
            if !leases.is_empty() {
                self.store.outstanding.add(leases.take_references());
                let (resumed, updated, probes, now) = (found.resumed, found.updated, found.probes, found.now);
                let repeated = ClaimResponse {
                    leases: leases.into_leases(),
                    resumed,
                    updated,
                    probes,
                    now,
                    is_limited_by_bytes,
                    ..Default::default()
                };
                return Ok(Some(repeated));
            }
        }
        (self.resumed, self.updated, self.probes) = (found.resumed, found.updated, found.probes);
        if found.has_due_expiry_checks {
            look::find_expired_leases(self.session, discovery, found.now).await?;
        }
        let abandon_after = self.request.abandon_after;
        self.abandoned
            .extend(abandon::abandon_expired(self.session, &mut discovery.claimable, abandon_after).await?);
        Ok(None)
    }
}
