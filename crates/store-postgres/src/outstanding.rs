//! The leases that this process has been granted and has neither settled nor released, grouped by claim.
//!
//! The notices of an event repeat references that its lease does not have. They are kept here, from the claim to the settle.
//!
//! A settle that ends the last lease of a claim also deletes the claim's row, and finds such claims here. Missing
//! entries are harmless: the expiry check deletes the row of a claim that holds no lease.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use posthaste_domain::{ClaimId, Lease, LeaseToken};
use uuid::Uuid;

use crate::convert::lease_claim;
use crate::notices::EventReferences;

/// Upper bound of the set, far above the claims of one worker. Beyond it, the set is cleared.
const CLAIMS_MAX: usize = 10_000;

/// The leases that this process has been granted and has neither settled nor released.
#[derive(Default)]
pub(crate) struct OutstandingLeases(Mutex<LeasesByClaim>);

#[derive(Default)]
struct LeasesByClaim {
    leases: HashMap<LeaseToken, OutstandingLease>,
    counts: HashMap<ClaimId, LeaseCount>,
}

struct OutstandingLease {
    claim: ClaimId,
    references: EventReferences,
}

#[derive(Default)]
struct LeaseCount {
    /// Leases of the claim that this process has received.
    granted: i32,
    /// Granted leases that have neither been settled nor released.
    outstanding: usize,
}

/// Claims without outstanding leases, as columns: their ids, and how many leases this process has received for each.
/// If the row of a claim lists more leases, this process never received them, and the row must not be deleted.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CompletedClaims {
    pub(crate) claims: Vec<Uuid>,
    pub(crate) lease_counts: Vec<i32>,
}

impl OutstandingLeases {
    fn lock(&self) -> MutexGuard<'_, LeasesByClaim> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds leases with the references of their events. A repeated claim returns leases that may already be here; they count once.
    pub(crate) fn add<'a>(&self, leases: impl Iterator<Item = (&'a Lease, EventReferences)>) {
        let mut state = self.lock();
        if state.counts.len() >= CLAIMS_MAX {
            *state = LeasesByClaim::default();
        }
        for (lease, references) in leases {
            let claim = ClaimId::from_uuid(lease_claim(lease.token, lease.key));
            if state.leases.insert(lease.token, OutstandingLease { claim, references }).is_none() {
                let count = state.counts.entry(claim).or_default();
                count.granted += 1;
                count.outstanding += 1;
            }
        }
    }

    /// Returns the claims that have no outstanding lease left once these leases end. Changes nothing.
    pub(crate) fn completed_by(&self, tokens: impl Iterator<Item = LeaseToken>) -> CompletedClaims {
        let state = self.lock();
        // Several settles may delete claims at the same time, and so lock them in one order.
        let mut tokens_by_claim: BTreeMap<ClaimId, Vec<LeaseToken>> = BTreeMap::new();
        for token in tokens {
            if let Some(lease) = state.leases.get(&token) {
                tokens_by_claim.entry(lease.claim).or_default().push(token);
            }
        }
        let mut completed = CompletedClaims::default();
        for (claim, mut tokens) in tokens_by_claim {
            tokens.sort_unstable();
            tokens.dedup();
            if let Some(count) = state.counts.get(&claim).filter(|count| count.outstanding == tokens.len()) {
                completed.claims.push(claim.as_uuid());
                completed.lease_counts.push(count.granted);
            }
        }
        completed
    }

    /// Removes leases that have been settled or released. Returns the references of their events.
    pub(crate) fn remove(
        &self,
        tokens: impl Iterator<Item = LeaseToken>,
    ) -> HashMap<LeaseToken, EventReferences> {
        let mut state = self.lock();
        let mut removed = HashMap::with_capacity(tokens.size_hint().0);
        for token in tokens {
            let Some(OutstandingLease { claim, references }) = state.leases.remove(&token) else { continue };
            removed.insert(token, references);
            if let Some(count) = state.counts.get_mut(&claim) {
                count.outstanding -= 1;
                if count.outstanding == 0 {
                    state.counts.remove(&claim);
                }
            }
        }
        removed
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use posthaste_domain::{DestinationId, DestinationUrl, EventId, EventKey, MessageId, Trigger};

    use super::*;
    use crate::convert::lease_token;
    use crate::notices::NoticeReferences;

    const CLAIM: fn() -> ClaimId = || ClaimId::random([7; 16]);

    fn token(number: u8) -> LeaseToken {
        lease_token(CLAIM().as_uuid(), EventKey(i64::from(number)))
    }

    fn lease(number: u8) -> Lease {
        Lease {
            token: token(number),
            key: EventKey(i64::from(number)),
            event_id: EventId::from_stored("event".into()),
            wire_id: EventId::from_stored("event".into()),
            message_id: MessageId::from_uuid(Uuid::nil()),
            destination_id: DestinationId(1),
            destination_url: DestinationUrl::from_stored("https://receiver.example/".into()),
            profile_version: 0,
            event_type: "type".into(),
            content_type: "text/plain".into(),
            payload: Bytes::new().into(),
            traceparent: None,
            attempts: 0,
            max_attempts: 1,
            trigger: Trigger::Scheduled,
            overdue: Duration::ZERO,
        }
    }

    #[test]
    fn the_last_lease_completes_its_claim_with_the_number_of_granted_leases() {
        let outstanding = OutstandingLeases::default();
        let add = |leases: &[Lease]| outstanding.add(leases.iter().map(|lease| (lease, None)));
        add(&[lease(1), lease(2), lease(3)]);
        // A repeated claim: leases that come twice count once.
        add(&[lease(2), lease(3)]);
        assert_eq!(outstanding.completed_by([token(1), token(1)].into_iter()), CompletedClaims::default());
        outstanding.remove([token(1)].into_iter());
        assert_eq!(outstanding.completed_by([token(2)].into_iter()), CompletedClaims::default());
        let completed = outstanding.completed_by([token(2), token(3), token(9)].into_iter());
        assert_eq!(completed, CompletedClaims { claims: vec![CLAIM().as_uuid()], lease_counts: vec![3] });
    }

    #[test]
    fn the_references_of_a_lease_are_returned_once_and_those_of_an_unknown_lease_never() {
        let outstanding = OutstandingLeases::default();
        let references = Some(Box::new(NoticeReferences {
            session_id: Some("session".to_owned()),
            ..NoticeReferences::default()
        }));
        outstanding.add([(&lease(1), references.clone()), (&lease(2), None)].into_iter());
        let removed = outstanding.remove([token(1), token(2), token(3)].into_iter());
        assert_eq!(removed, HashMap::from([(token(1), references), (token(2), None)]));
        assert_eq!(outstanding.remove([token(1)].into_iter()), HashMap::new());
    }
}
