//! What workers know of the destinations they send to: their windows, failures and latencies.

use std::collections::BTreeMap;
use std::time::Duration;

use posthaste_domain::DestinationId;

/// Maximum number of destinations in one report: those that the worker used last.
pub const RECEIVERS_REPORTED_MAX: usize = 256;
/// How long a report describes the destinations of its worker.
pub const RECEIVERS_SHOWN_FOR: Duration = Duration::from_secs(60);

/// What workers know of one destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiverActivity {
    pub destination: DestinationId,
    /// How many requests may be in flight at once.
    pub window: u64,
    /// Recent requests that have ended.
    pub requests: u64,
    /// Those of them that failed because of the receiver.
    pub failures: u64,
    /// The mean duration of recent requests.
    pub latency: Duration,
}

impl ReceiverActivity {
    /// Merges what several workers reported, by destination: windows and requests add up, and latencies are weighted by requests.
    pub fn merge(reported: impl IntoIterator<Item = Self>) -> Vec<Self> {
        let mut merged: BTreeMap<DestinationId, Self> = BTreeMap::new();
        for receiver in reported {
            merged
                .entry(receiver.destination)
                .and_modify(|sum| *sum = sum.plus(receiver))
                .or_insert(receiver);
        }
        merged.into_values().collect()
    }

    fn plus(self, other: Self) -> Self {
        let requests = self.requests.saturating_add(other.requests);
        let weighted = |receiver: Self| receiver.latency.as_micros() * u128::from(receiver.requests);
        let latency = (weighted(self) + weighted(other)).checked_div(requests.into()).unwrap_or_default();
        Self {
            destination: self.destination,
            window: self.window.saturating_add(other.window),
            requests,
            failures: self.failures.saturating_add(other.failures),
            latency: Duration::from_micros(u64::try_from(latency).unwrap_or(u64::MAX)),
        }
    }

    /// The part of the recent requests that failed. `None` without requests.
    #[expect(clippy::cast_precision_loss, reason = "a ratio for people, of a few hundred requests")]
    pub fn failure_ratio(&self) -> Option<f64> {
        (self.requests > 0).then(|| self.failures as f64 / self.requests as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receiver(destination: i64, window: u64, requests: u64, millis: u64) -> ReceiverActivity {
        let (destination, latency) = (DestinationId(destination), Duration::from_millis(millis));
        ReceiverActivity { destination, window, requests, failures: requests / 2, latency }
    }

    #[test]
    fn reports_of_several_workers_add_up_and_latencies_are_weighted_by_requests() {
        let merged = ReceiverActivity::merge([
            receiver(2, 4, 0, 0),
            receiver(1, 20, 30, 10),
            receiver(1, 2, 10, 50),
            receiver(2, 1, 0, 0),
        ]);
        assert_eq!(merged, [receiver(1, 22, 40, 20), receiver(2, 5, 0, 0)]);
        assert_eq!(merged.iter().map(ReceiverActivity::failure_ratio).collect::<Vec<_>>(), [Some(0.5), None]);
    }
}
