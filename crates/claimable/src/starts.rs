//! Where a worker starts to claim among the rows of a destination.
//!
//! Workers that claim the rows of one destination at the same moment want the same rows: one gets them, and the others have
//! searched in vain, and read over its rows in the next claims, too. So a worker that finds rows locked goes on at a random
//! position behind them, and leaves the rows before it to the others for a moment. It comes back to them soon: the other
//! worker may have done the same.

use std::collections::BTreeMap;
use std::time::Duration;

use posthaste_domain::{ClaimId, DestinationId, Timestamp};

use super::{LockedRows, PositionRange};

/// How long a worker leaves the rows before its start to others.
const START_VALID: Duration = Duration::from_secs(1);
/// The number of locked rows from which a worker goes on elsewhere. Fewer may be all that the destination has.
const LOCKED_ROWS_MIN: usize = 4;

/// The positions at which the worker starts, by destination.
#[derive(Debug, Default)]
pub(crate) struct Starts(BTreeMap<DestinationId, Start>);

#[derive(Debug, Clone, Copy)]
struct Start {
    position: i64,
    until: Timestamp,
}

impl Starts {
    /// Records that a claim found rows locked. `rest` is where it could have gone on: the part of the range after them.
    pub(crate) fn record_locked(&mut self, claim: ClaimId, locked: &LockedRows, now: Timestamp) {
        let rest = PositionRange { low: locked.range.high, high: locked.range_end };
        if locked.rows >= LOCKED_ROWS_MIN && rest.low < rest.high {
            let position = random_position(claim, locked.destination, rest);
            self.0.insert(locked.destination, Start { position, until: now.after(START_VALID) });
        }
    }

    /// Returns the position after which the worker starts to claim.
    pub(crate) fn get(&self, destination: DestinationId, now: Timestamp) -> Option<i64> {
        self.0.get(&destination).filter(|start| start.until > now).map(|start| start.position)
    }

    /// Forgets the starts that are no longer valid.
    pub(crate) fn remove_ended(&mut self, now: Timestamp) {
        self.0.retain(|_, start| start.until > now);
    }
}

/// Chooses a position within a range by the random bits of a claim's id.
fn random_position(claim: ClaimId, destination: DestinationId, range: PositionRange) -> i64 {
    let (_, random) = claim.as_uuid().as_u64_pair();
    // Multiplying by an odd number spreads the destinations of one claim over the range.
    let spread = random.wrapping_add(destination.0.cast_unsigned()).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let length = range.high.abs_diff(range.low);
    let offset = (u128::from(spread) * u128::from(length)) >> 64;
    range.low.saturating_add(i64::try_from(offset).unwrap_or(i64::MAX))
}
