//! Random numbers derived from the simulation's seed.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use posthaste_domain::{ClaimId, RandomDraw};
use posthaste_engine::RandomSource;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

/// One stream of random numbers. Each part of the simulation has its own stream, so that a draw in one part does not
/// change the numbers of another.
pub(crate) struct SeededRandom(Mutex<StdRng>);

impl SeededRandom {
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        Self(Mutex::new(StdRng::seed_from_u64(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(stream))))
    }

    /// Returns true with a probability of `per_mille` in a thousand.
    pub(crate) fn chance(&self, per_mille: u64) -> bool {
        self.in_range(0..1_000) < per_mille
    }

    pub(crate) fn in_range(&self, range: Range<u64>) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).random_range(range)
    }

    /// Returns an index into a collection of this length.
    pub(crate) fn index(&self, len: usize) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).random_range(0..len)
    }

    pub(crate) fn pick<T: Clone>(&self, choices: &[T]) -> T {
        choices[self.index(choices.len())].clone()
    }

    /// Returns a duration within a range of milliseconds.
    pub(crate) fn millis(&self, range: Range<u64>) -> Duration {
        Duration::from_millis(self.in_range(range))
    }
}

impl RandomSource for SeededRandom {
    fn draw(&self) -> RandomDraw {
        RandomDraw(self.0.lock().unwrap_or_else(PoisonError::into_inner).random())
    }

    fn new_claim_id(&self) -> ClaimId {
        ClaimId::random(self.0.lock().unwrap_or_else(PoisonError::into_inner).random())
    }
}
