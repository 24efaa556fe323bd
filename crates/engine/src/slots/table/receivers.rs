//! What the worker knows of the destinations that it used last, for its report to the store.

use std::cmp::Reverse;

use posthaste_store::ReceiverActivity;

use super::Table;

impl<Q> Table<Q> {
    /// Describes the destinations that were used last, `receivers_max` at most.
    pub(in crate::slots) fn receivers(&self, receivers_max: usize) -> Vec<ReceiverActivity> {
        let mut used: Vec<_> = self.destinations.iter().collect();
        used.sort_unstable_by_key(|(id, entry)| (Reverse(entry.used_at), **id));
        let reported = used.into_iter().take(receivers_max).map(|(id, entry)| ReceiverActivity {
            destination: *id,
            window: u64::try_from(entry.window.size()).unwrap_or(u64::MAX),
            requests: entry.recent.requests.into(),
            failures: entry.recent.failures.into(),
            latency: entry.recent.latency,
        });
        reported.collect()
    }
}
