//! Granting leases: discover, then ask for what fits.

mod abandon;
mod again;
mod grant;

use futures_util::future::join5;
use posthaste_store::{ClaimRequest, Claimed, StoreError};

use crate::Shared;
use crate::discover::{self, COMMITTED, EXPIRED, HORIZON, Marks, NEWS, STEP_CLAIMS_MAX, STEP_ROWS_MAX};
use crate::frontier::{Frontier, Horizon, Room};
use crate::moment::micros;
use crate::session::Session;
use crate::sweep::{self, Begun};

/// What this process knows, and where it looks on.
#[derive(Default)]
pub(crate) struct Known {
    pub(crate) frontier: Frontier,
    pub(crate) marks: Marks,
}

pub(crate) async fn claim(store: &Shared, request: &ClaimRequest) -> Result<Claimed, StoreError> {
    // Claims of one process take turns: each of them takes all that fits, and plans with what the last one left.
    let mut known = store.known.lock().await;
    let claimed = store.sessions.dispatch.with(async |session| {
        if !known.marks.begun() && sweep::begin(session, &mut known).await? == Begun::InPart {
            store.sweep_soon.notify_one();
        }
        claim_with(session, &mut known, request).await
    });
    let claimed = claimed.await;
    match &claimed {
        Ok(claimed) => store.granted.add(request.id, &claimed.leases),
        // The server that comes back may be another, and may know less.
        Err(_) => *known = Known::default(),
    }
    claimed
}

async fn claim_with(
    session: &Session,
    known: &mut Known,
    request: &ClaimRequest,
) -> Result<Claimed, tokio_postgres::Error> {
    let (granted_before, horizon) = look(session, known, request).await?;
    if !granted_before.is_empty() {
        return Ok(Claimed { leases: granted_before, abandoned: Vec::new() });
    }
    let abandoned = abandon::abandon(session, &mut known.frontier, request.abandon_after).await?;
    let mut room = Room::of(request);
    let mut leases = Vec::new();
    // Each round uses up what it asked for, so there is an end; the first is almost always the last.
    loop {
        let plan = known.frontier.plan(request, &room, horizon.now);
        if plan.is_empty() {
            return Ok(Claimed { leases, abandoned });
        }
        grant::grant(session, &mut known.frontier, request, &plan, &mut room, &mut leases).await?;
    }
}

/// One round trip: what this very claim was granted before, what is new, and which leases have expired.
async fn look(
    session: &Session,
    known: &mut Known,
    request: &ClaimRequest,
) -> Result<(Vec<posthaste_domain::Lease>, Horizon), tokio_postgres::Error> {
    let (again, horizon, committed, news, expired) = (
        session.prepare(&again::AGAIN).await?,
        session.prepare(&HORIZON).await?,
        session.prepare(&COMMITTED).await?,
        session.prepare(&NEWS).await?,
        session.prepare(&EXPIRED).await?,
    );
    let step = known.marks.step();
    let lease = micros(request.lease);
    let claim = request.id.as_uuid();
    let answers = session.transaction(async {
        let (granted_before, horizon, committed, news, expired) = join5(
            session.send(&again, &[&claim, &lease]),
            session.send(&horizon, &[]),
            session.send(&committed, &[&step.gap_lows, &step.gap_highs, &STEP_ROWS_MAX]),
            session.send(&news, &[&step.lows, &step.highs, &STEP_ROWS_MAX]),
            session.send(&expired, &[&known.marks.claims(), &STEP_CLAIMS_MAX]),
        )
        .await;
        Ok((granted_before?, horizon?, committed?, news?, expired?))
    });
    let (granted_before, horizon, committed, news, expired) = answers.await?;
    let (horizon, last_turn) = discover::horizon(&horizon)?;
    let granted_before = granted_before.iter().map(grant::lease).collect::<Result<_, _>>()?;
    if last_turn < known.marks.known_to().0 {
        // Another server, which knows less than the one before it: what is known here is not of it.
        *known = Known::default();
        return Ok((granted_before, horizon));
    }
    known.marks.took(&step, horizon, &committed, &news, &mut known.frontier)?;
    known.marks.took_expired(horizon, &expired, &mut known.frontier)?;
    known.frontier.forget_pauses(horizon.now);
    Ok((granted_before, horizon))
}
