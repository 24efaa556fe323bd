//! Which leases this process has been granted and not ended, by their claims.
//!
//! A settle that ends the last lease of a claim can so delete the claim's row in passing. Whoever forgets here is
//! forgiven: a row that stays is found, with nothing left to it, when its leases would have expired.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use posthaste_domain::{ClaimId, Lease, LeaseToken};
use uuid::Uuid;

/// Far more claims than a worker has at a time.
const CLAIMS_MAX: usize = 10_000;

#[derive(Default)]
pub(crate) struct Granted(Mutex<State>);

#[derive(Default)]
struct State {
    claims: HashMap<LeaseToken, ClaimId>,
    counts: HashMap<ClaimId, Count>,
}

#[derive(Default)]
struct Count {
    /// Leases that this process has heard of.
    granted: i32,
    /// Those that have not ended.
    left: usize,
}

/// Claims that have no lease left, and how many they were granted as far as this process knows. A claim whose row says
/// otherwise has leases that nobody here has heard of, and is kept.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Finished {
    pub(crate) claims: Vec<Uuid>,
    pub(crate) leases: Vec<i32>,
}

impl Granted {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A claim was answered; one that was asked again brings leases that may be known already.
    pub(crate) fn add(&self, claim: ClaimId, leases: &[Lease]) {
        let mut state = self.state();
        if state.counts.len() >= CLAIMS_MAX {
            *state = State::default();
        }
        for lease in leases {
            if state.claims.insert(lease.token, claim).is_none() {
                let count = state.counts.entry(claim).or_default();
                count.granted += 1;
                count.left += 1;
            }
        }
    }

    /// Claims that have no lease left once these have ended.
    pub(crate) fn finished_by(&self, tokens: impl Iterator<Item = LeaseToken>) -> Finished {
        let state = self.state();
        let mut ending: HashMap<ClaimId, Vec<LeaseToken>> = HashMap::new();
        for token in tokens {
            if let Some(claim) = state.claims.get(&token) {
                ending.entry(*claim).or_default().push(token);
            }
        }
        let mut finished = Finished::default();
        for (claim, mut tokens) in ending {
            tokens.sort_unstable();
            tokens.dedup();
            if let Some(count) = state.counts.get(&claim).filter(|count| count.left == tokens.len()) {
                finished.claims.push(claim.as_uuid());
                finished.leases.push(count.granted);
            }
        }
        finished
    }

    pub(crate) fn end(&self, tokens: impl Iterator<Item = LeaseToken>) {
        let mut state = self.state();
        for token in tokens {
            let Some(claim) = state.claims.remove(&token) else { continue };
            if let Some(count) = state.counts.get_mut(&claim) {
                count.left -= 1;
                if count.left == 0 {
                    state.counts.remove(&claim);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use posthaste_domain::{DestinationId, DestinationUrl, EventId, EventKey, MessageId, Trigger};

    use super::*;

    const CLAIM: fn() -> ClaimId = || ClaimId::random([7; 16]);

    fn token(number: u8) -> LeaseToken {
        LeaseToken::random([number; 16])
    }

    fn lease(number: u8) -> Lease {
        Lease {
            token: token(number),
            key: EventKey(i64::from(number)),
            event_id: EventId::stored("event".into()),
            message_id: MessageId::from_uuid(Uuid::nil()),
            destination_id: DestinationId(1),
            destination_url: DestinationUrl::stored("https://receiver.example/".into()),
            event_type: "type".into(),
            content_type: "text/plain".into(),
            payload: Bytes::new(),
            traceparent: None,
            attempts: 0,
            max_attempts: 1,
            trigger: Trigger::Scheduled,
            overdue: Duration::ZERO,
        }
    }

    #[test]
    fn a_claim_is_finished_by_its_last_lease_and_says_how_many_it_had() {
        let granted = Granted::default();
        granted.add(CLAIM(), &[lease(1), lease(2), lease(3)]);
        // Asked again: what comes twice counts once.
        granted.add(CLAIM(), &[lease(2), lease(3)]);
        assert_eq!(granted.finished_by([token(1), token(1)].into_iter()), Finished::default());
        granted.end([token(1)].into_iter());
        assert_eq!(granted.finished_by([token(2)].into_iter()), Finished::default());
        let finished = granted.finished_by([token(2), token(3), token(9)].into_iter());
        assert_eq!(finished, Finished { claims: vec![CLAIM().as_uuid()], leases: vec![3] });
    }
}
