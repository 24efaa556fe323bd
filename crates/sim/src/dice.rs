//! Chance, from a seed.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use posthaste_domain::{ClaimId, Roll};
use posthaste_engine::Chance;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

/// One stream of random numbers. Each part of the world has its own, so that they do not disturb each other.
pub(crate) struct Dice(Mutex<StdRng>);

impl Dice {
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        Self(Mutex::new(StdRng::seed_from_u64(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(stream))))
    }

    /// True `per_mille` times in a thousand.
    pub(crate) fn chance(&self, per_mille: u64) -> bool {
        self.within(0..1_000) < per_mille
    }

    pub(crate) fn within(&self, range: Range<u64>) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).random_range(range)
    }

    pub(crate) fn index(&self, len: usize) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).random_range(0..len)
    }

    pub(crate) fn pick<T: Clone>(&self, choices: &[T]) -> T {
        choices[self.index(choices.len())].clone()
    }

    pub(crate) fn millis(&self, range: Range<u64>) -> Duration {
        Duration::from_millis(self.within(range))
    }
}

impl Chance for Dice {
    fn roll(&self) -> Roll {
        Roll(self.0.lock().unwrap_or_else(PoisonError::into_inner).random())
    }

    fn claim_id(&self) -> ClaimId {
        ClaimId::random(self.0.lock().unwrap_or_else(PoisonError::into_inner).random())
    }
}
