//! Claims: discover claimable rows, then grant leases on as many as fit the request.
//!
//! A claim repeated under its id returns the leases that it was granted before and still holds.

mod abandon;
mod grant;
mod grant_sql;
mod receivers;
mod repeat;

use futures_util::future::join5;
use posthaste_domain::Lease;
use posthaste_store::{ClaimRequest, ClaimResponse, ResumedDestination, StoreError};

pub(crate) use grant::grant_in_transaction;

use crate::StoreState;
use crate::claimable::{ClaimBudget, ClaimableIndex, ServerSnapshot};
use crate::convert::{bytes, micros};
use crate::discover::{
    self, COMMITTED_IN_GAPS, DiscoveryCursors, EXPIRED_LEASES, NEW_ROWS, READ_SNAPSHOT, STEP_CLAIMS_MAX,
    STEP_ROWS_MAX,
};
use crate::session::Session;
use crate::sweep::{self, FirstSweep};

/// The number of rounds that grant nothing because payloads do not fit the byte limits, after which a claim ends. Each
/// round reads hundreds of destinations.
const FRUITLESS_ROUNDS_MAX: usize = 4;

/// The rows that this process has discovered, and the positions from which discovery continues.
#[derive(Default)]
pub(crate) struct DiscoveryState {
    pub(crate) claimable: ClaimableIndex,
    pub(crate) cursors: DiscoveryCursors,
}

pub(crate) async fn claim(store: &StoreState, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
    // Claims of one process run one after the other: each takes every row that fits, and plans with the index that the
    // previous claim left.
    let mut discovery = store.discovery.lock().await;
    let response = store.sessions.dispatch.with(async |session| {
        if !discovery.cursors.has_started()
            && sweep::start_discovery(session, &mut discovery).await? == FirstSweep::Partial
        {
            store.sweep_request.notify_one();
        }
        claim_on(session, store, &mut discovery, request).await
    });
    let response = response.await;
    match &response {
        Ok(response) => store.outstanding.add(request.id, &response.leases),
        // The next connection may lead to another server that has fewer rows.
        Err(_) => *discovery = DiscoveryState::default(),
    }
    response
}

async fn claim_on(
    session: &Session,
    store: &StoreState,
    discovery: &mut DiscoveryState,
    request: &ClaimRequest,
) -> Result<ClaimResponse, tokio_postgres::Error> {
    let Discovered { granted_before, has_released, snapshot, resumed } =
        discover_rows(session, store, discovery, request).await?;
    if !granted_before.is_empty() {
        return Ok(ClaimResponse {
            leases: granted_before,
            abandoned: Vec::new(),
            resumed,
            now: snapshot.now,
            is_limited_by_bytes: has_released,
        });
    }
    let abandoned =
        abandon::abandon_expired(session, &mut discovery.claimable, request.abandon_after).await?;
    receivers::read_receivers(session, &mut discovery.claimable).await?;
    let mut budget = ClaimBudget::new(request);
    let mut leases = Vec::new();
    // Terminates: each round removes the ranges that it claimed from the index, or keeps back a destination whose next
    // payload does not fit. One round is almost always enough.
    let mut fruitless_rounds = 0;
    loop {
        let plan = discovery.claimable.plan(&budget, snapshot.now);
        if plan.is_empty() || fruitless_rounds >= FRUITLESS_ROUNDS_MAX {
            let is_limited_by_bytes = budget.is_limited_by_bytes();
            discovery.claimable.restore_locked(budget.into_locked());
            return Ok(ClaimResponse { leases, abandoned, resumed, now: snapshot.now, is_limited_by_bytes });
        }
        let leases_before = leases.len();
        grant::execute_plan(session, &mut discovery.claimable, request, &plan, &mut budget, &mut leases)
            .await?;
        fruitless_rounds += usize::from(budget.is_limited_by_bytes() && leases.len() == leases_before);
    }
}

/// What a discovery step found, apart from the claimable rows.
struct Discovered {
    /// The leases that a repeated claim still holds.
    granted_before: Vec<Lease>,
    /// Whether the repeated claim released leases whose payloads did not fit its limit.
    has_released: bool,
    snapshot: ServerSnapshot,
    resumed: Vec<ResumedDestination>,
}

/// Runs one discovery step in one round trip. Reads the leases that a repeated claim still holds, the rows that have
/// become claimable, the leases that have expired, and the destinations that operators have resumed.
async fn discover_rows(
    session: &Session,
    store: &StoreState,
    discovery: &mut DiscoveryState,
    request: &ClaimRequest,
) -> Result<Discovered, tokio_postgres::Error> {
    let (repeat, snapshot, committed, new_rows, expired) = (
        session.prepare(&repeat::REPEAT_CLAIM).await?,
        session.prepare(&READ_SNAPSHOT).await?,
        session.prepare(&COMMITTED_IN_GAPS).await?,
        session.prepare(&NEW_ROWS).await?,
        session.prepare(&EXPIRED_LEASES).await?,
    );
    let step = discovery.cursors.next_step();
    let (lease, resumed_within) = (micros(request.lease), micros(request.resumed_within));
    let claim = request.id.as_uuid();
    let payload_bytes_max = bytes(request.payload_bytes_max);
    let results = session.transaction(async {
        let (granted_before, snapshot, committed, new_rows, expired) = join5(
            session.send(&repeat, &[&claim, &lease, &payload_bytes_max]),
            session.send(&snapshot, &[&resumed_within]),
            session.send(&committed, &[&step.gap_lows, &step.gap_highs, &STEP_ROWS_MAX]),
            session.send(&new_rows, &[&step.lows, &step.highs, &STEP_ROWS_MAX]),
            session.send(&expired, &[&discovery.cursors.expiry_checked_to(), &STEP_CLAIMS_MAX]),
        )
        .await;
        Ok((granted_before?, snapshot?, committed?, new_rows?, expired?))
    });
    let (granted_before, snapshot, committed, new_rows, expired) = results.await?;
    let resumed = discover::parse_resumed(&snapshot)?;
    let (snapshot, last_number) = discover::parse_snapshot(&snapshot)?;
    let has_released = repeat::has_released(&granted_before)?;
    let granted_before = granted_before.iter().map(grant::parse_lease).collect::<Result<_, _>>()?;
    let discovered = Discovered { granted_before, has_released, snapshot, resumed };
    if last_number < discovery.cursors.discovered_to().0 {
        // The sequence went backwards: this is another server with fewer rows, and the index does not describe it.
        *discovery = DiscoveryState::default();
        return Ok(discovered);
    }
    if discovery.cursors.has_clock_stepped_back(snapshot.now) {
        // The next claim starts discovery again, from the new time.
        *discovery = DiscoveryState::default();
        store.clock_repair.request();
        store.sweep_request.notify_one();
        return Ok(discovered);
    }
    discovery.cursors.record_step(&step, snapshot, &committed, &new_rows, &mut discovery.claimable)?;
    discovery.cursors.record_expired(snapshot, &expired, &mut discovery.claimable)?;
    discovery.claimable.remove_ended_pauses(snapshot.now);
    for resumed in &discovered.resumed {
        discovery.claimable.record_resume(resumed.destination);
    }
    Ok(discovered)
}
