//! The byte limits of a claim: which payloads it may grant, and which events it may leave because of them.

use std::collections::BTreeSet;

use posthaste_domain::EventKey;
use posthaste_store::ClaimRequest;
use posthaste_store_memory::{Row, State};

use super::choice::LeftByBytes;
use crate::difference::{ComparisonResult, Difference};

/// The payloads that a claim has granted, and its limits.
pub(super) struct ByteLimits<'a> {
    state: &'a State,
    request: &'a ClaimRequest,
    granted: Vec<usize>,
}

impl<'a> ByteLimits<'a> {
    pub(super) fn new(state: &'a State, request: &'a ClaimRequest, granted: &[EventKey]) -> Self {
        let bytes = |key: &EventKey| state.payload(&state.rows[key]).len();
        Self { state, request, granted: granted.iter().map(bytes).collect() }
    }

    fn event_bytes_max(&self) -> usize {
        self.request.event_payload_bytes_max.unwrap_or(usize::MAX)
    }

    /// Returns whether the payload alone is larger than the claim may grant.
    fn is_too_large(&self, row: &Row) -> bool {
        self.state.payload(row).len() > self.event_bytes_max()
    }

    /// Returns whether the payload may not have fitted beside those that were granted. The store chooses which of the
    /// granted events is not counted.
    fn may_not_fit(&self, row: &Row) -> bool {
        let Some(smallest) = self.granted.iter().min() else { return false };
        let counted = self.granted.iter().sum::<usize>() - smallest;
        self.state.payload(row).len() > self.request.payload_bytes_max.saturating_sub(counted)
    }

    /// Returns whether the claim may leave an event because of the sizes of the claimable events that it left. One that is
    /// too large keeps back its destination; one that does not fit beside the others ends the claim.
    pub(super) fn may_leave(&self, row: &Row, left: &[&Row]) -> bool {
        left.iter().any(|other| {
            self.may_not_fit(other)
                || (self.is_too_large(other) && other.destination_id == row.destination_id)
        })
    }

    /// Checks that the granted payloads are within the limits, and that the claim reported correctly whether it left events
    /// because of them.
    pub(super) fn check(&self, left: &[&Row], reported: &LeftByBytes) -> ComparisonResult {
        let largest = self.granted.iter().max().copied().unwrap_or(0);
        let others = self.granted.iter().sum::<usize>() - largest;
        if largest > self.event_bytes_max() || others > self.request.payload_bytes_max {
            return Err(Difference::new(format!("payloads of {:?} bytes were granted", self.granted)));
        }
        let left_by_bytes = left.iter().filter(|row| self.may_leave(row, left));
        let may_be_kept_back: BTreeSet<_> = left_by_bytes.map(|row| row.destination_id).collect();
        let is_wrong = (reported.is_limited_by_bytes && may_be_kept_back.is_empty())
            || !reported.kept_back.is_subset(&may_be_kept_back)
            || !(reported.is_limited_by_bytes || reported.kept_back.is_empty());
        if is_wrong {
            return Err(Difference::new(
                "the claim reported a limit in bytes that it had not reached".to_owned(),
            ));
        }
        Ok(())
    }
}
