//! The payloads that claims have left, because they did not fit the limits in bytes.
//!
//! While a worker may take no large payload, each of its claims would ask PostgreSQL for the same ones again, a few destinations
//! at a time. It must know all destinations whose next event waits: new events of the others may be sent at once.

use std::collections::BTreeMap;
use std::time::Duration;

use posthaste_domain::{DestinationId, Timestamp};

use super::PositionRange;

/// How long claims rely on the size of a payload without asking again. Another worker may have taken its event meanwhile.
const KNOWN_FOR: Duration = Duration::from_secs(5);

/// A row whose payload did not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeftRow {
    pub position: i64,
    pub payload_bytes: usize,
}

/// The first rows that claims have left, by destination.
#[derive(Debug, Default)]
pub(crate) struct LeftRows(BTreeMap<DestinationId, (LeftRow, Timestamp)>);

impl LeftRows {
    pub(crate) fn record(&mut self, destination: DestinationId, left: LeftRow, now: Timestamp) {
        self.0.insert(destination, (left, now.after(KNOWN_FOR)));
    }

    /// Returns the size of the payload of the first row of a range, if a claim has left that row.
    pub(crate) fn payload_bytes(
        &self,
        destination: DestinationId,
        range: PositionRange,
        now: Timestamp,
    ) -> Option<usize> {
        let (left, until) = self.0.get(&destination)?;
        (left.position == range.low + 1 && *until > now).then_some(left.payload_bytes)
    }

    pub(crate) fn remove_old(&mut self, now: Timestamp) {
        self.0.retain(|_, (_, until)| *until > now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_row_is_known_for_a_while_and_for_this_row_alone() {
        let (destination, at) = (DestinationId(1), Timestamp::from_secs(100));
        let mut rows = LeftRows::default();
        rows.record(destination, LeftRow { position: 7, payload_bytes: 256_000 }, at);
        let size = |rows: &LeftRows, low, now| {
            rows.payload_bytes(destination, PositionRange { low, high: 9 }, Timestamp::from_secs(now))
        };
        assert_eq!(size(&rows, 6, 104), Some(256_000));
        assert_eq!((size(&rows, 7, 104), size(&rows, 6, 105)), (None, None));
        rows.remove_old(Timestamp::from_secs(105));
        assert!(rows.0.is_empty());
    }
}
