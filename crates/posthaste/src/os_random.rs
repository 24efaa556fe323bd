//! Randomness from the operating system.

use std::sync::{Mutex, PoisonError};

use posthaste_domain::signature::Secret;
use posthaste_domain::{ClaimId, RandomDraw};
use posthaste_engine::RandomSource;
use rand::rngs::{StdRng, SysRng};
use rand::{Rng as _, SeedableRng as _};

/// A cryptographically secure generator that is seeded once, by the operating system.
pub struct OsRandom(Mutex<StdRng>);

/// The operating system returned no random bytes for the seed.
#[derive(Debug, thiserror::Error)]
#[error("the operating system returned no random numbers: {0}")]
pub struct EntropyError(String);

impl OsRandom {
    pub fn new() -> Result<Self, EntropyError> {
        let random = StdRng::try_from_rng(&mut SysRng).map_err(|error| EntropyError(error.to_string()))?;
        Ok(Self(Mutex::new(random)))
    }

    /// Generates a signing secret of 32 bytes.
    pub fn secret(&self) -> Secret {
        Secret::from_bytes(self.bytes::<32>().to_vec()).expect("32 bytes are enough for a secret")
    }

    /// Generates an id that distinguishes this start of the process from every other.
    pub fn boot_id(&self) -> u64 {
        u64::from_le_bytes(self.bytes())
    }

    /// Fills the slice with random bytes.
    pub fn fill(&self, bytes: &mut [u8]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).fill_bytes(bytes);
    }

    fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.fill(&mut bytes);
        bytes
    }
}

impl RandomSource for OsRandom {
    fn draw(&self) -> RandomDraw {
        RandomDraw(u64::from_le_bytes(self.bytes()))
    }

    fn new_claim_id(&self) -> ClaimId {
        ClaimId::random(self.bytes())
    }
}
