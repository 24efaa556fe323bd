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
    /// How many leases each claim still has.
    left: HashMap<ClaimId, usize>,
}

impl Granted {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A claim was answered; one that was asked again brings leases that may be known already.
    pub(crate) fn add(&self, claim: ClaimId, leases: &[Lease]) {
        let mut state = self.state();
        if state.left.len() >= CLAIMS_MAX {
            *state = State::default();
        }
        for lease in leases {
            if state.claims.insert(lease.token, claim).is_none() {
                *state.left.entry(claim).or_default() += 1;
            }
        }
    }

    /// Claims that have no lease left once these have ended.
    pub(crate) fn finished_by(&self, tokens: impl Iterator<Item = LeaseToken>) -> Vec<Uuid> {
        let state = self.state();
        let mut ending: HashMap<ClaimId, Vec<LeaseToken>> = HashMap::new();
        for token in tokens {
            if let Some(claim) = state.claims.get(&token) {
                let ending = ending.entry(*claim).or_default();
                ending.push(token);
            }
        }
        let ends = |(claim, mut tokens): (ClaimId, Vec<LeaseToken>)| {
            tokens.sort_unstable();
            tokens.dedup();
            (state.left.get(&claim) == Some(&tokens.len())).then(|| claim.as_uuid())
        };
        ending.into_iter().filter_map(ends).collect()
    }

    pub(crate) fn end(&self, tokens: impl Iterator<Item = LeaseToken>) {
        let mut state = self.state();
        for token in tokens {
            let Some(claim) = state.claims.remove(&token) else { continue };
            if let Some(left) = state.left.get_mut(&claim) {
                *left -= 1;
                if *left == 0 {
                    state.left.remove(&claim);
                }
            }
        }
    }
}
