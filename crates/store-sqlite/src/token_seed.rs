//! The random part of lease tokens.

use posthaste_domain::{EventKey, LeaseToken};
use rand::RngExt as _;
use rand::rngs::StdRng;
use rusqlite::Row;
use uuid::Uuid;

use crate::row;

/// The random UUID that all leases of a claim share, stored as `webhook_queue.lease_token`. The token of a lease is the
/// seed of its claim, combined with the key of its event: tokens differ, while one statement writes the leases of many
/// events. No two claims draw the same seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TokenSeed(u128);

impl TokenSeed {
    pub(crate) fn random(random: &mut StdRng) -> Self {
        Self(LeaseToken::random(random.random()).as_uuid().as_u128())
    }

    /// Returns the seed that a lease on an event was granted under.
    pub(crate) fn of_lease(key: EventKey, token: LeaseToken) -> Self {
        Self(token.as_uuid().as_u128() ^ key_bits(key))
    }

    pub(crate) fn from_row(row: &Row<'_>, column: usize) -> rusqlite::Result<Self> {
        row::uuid(row, column).map(|uuid| Self(uuid.as_u128()))
    }

    /// Returns the token of a claim's lease on an event.
    pub(crate) fn token(self, key: EventKey) -> LeaseToken {
        LeaseToken::from_uuid(Uuid::from_u128(self.0 ^ key_bits(key)))
    }

    pub(crate) const fn into_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }
}

/// A key as the low bits of a UUID. Version and variant of a UUID are not among them: no key is as large as 2⁶².
fn key_bits(key: EventKey) -> u128 {
    u128::from(key.0.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng as _;

    #[test]
    fn tokens_of_a_claim_differ_and_lead_back_to_its_seed() {
        let seed = TokenSeed::random(&mut StdRng::seed_from_u64(1));
        let tokens = [1, 2, 3, 1 << 40].map(|key| (EventKey(key), seed.token(EventKey(key))));
        for (key, token) in tokens {
            assert_eq!(TokenSeed::of_lease(key, token), seed);
            assert_eq!(token.as_uuid().get_version_num(), 4);
            assert_eq!(tokens.iter().filter(|(_, other)| *other == token).count(), 1);
            assert_ne!(TokenSeed::of_lease(EventKey(key.0 + 1), token), seed, "the token is of one event");
        }
    }
}
