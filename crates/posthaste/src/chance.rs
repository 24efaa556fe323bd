//! RandomSource, from the operating system.

use std::sync::{Mutex, PoisonError};

use posthaste_domain::signature::Secret;
use posthaste_domain::{ClaimId, RandomDraw};
use posthaste_engine::RandomSource;
use rand::rngs::{StdRng, SysRng};
use rand::{Rng as _, SeedableRng as _};

/// A generator that nobody can foretell, seeded once.
pub struct OsChance(Mutex<StdRng>);

#[derive(Debug, thiserror::Error)]
#[error("the operating system gives no random numbers: {0}")]
pub struct NoEntropy(String);

impl OsChance {
    pub fn new() -> Result<Self, NoEntropy> {
        let random = StdRng::try_from_rng(&mut SysRng).map_err(|error| NoEntropy(error.to_string()))?;
        Ok(Self(Mutex::new(random)))
    }

    /// A signing secret that has never been.
    pub fn secret(&self) -> Secret {
        Secret::from_bytes(self.bytes::<32>().to_vec()).expect("32 bytes make a secret")
    }

    /// Tells this start of the process from every other.
    pub fn boot(&self) -> u64 {
        u64::from_le_bytes(self.bytes())
    }

    fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.0.lock().unwrap_or_else(PoisonError::into_inner).fill_bytes(&mut bytes);
        bytes
    }
}

impl RandomSource for OsChance {
    fn draw(&self) -> RandomDraw {
        RandomDraw(u64::from_le_bytes(self.bytes()))
    }

    fn new_claim_id(&self) -> ClaimId {
        ClaimId::random(self.bytes())
    }
}
