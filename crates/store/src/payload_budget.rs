//! The byte limits of a claim: which payloads it may still grant, and which leases a repeated claim keeps.

use crate::claim::ClaimRequest;

/// The payload bytes that a claim in progress may still grant. The first event is granted whatever its size, so that a
/// claim makes progress with any limit.
#[derive(Debug, Clone)]
pub struct PayloadBudget {
    bytes_left: usize,
    event_bytes_max: usize,
    has_granted: bool,
    refused: usize,
}

impl PayloadBudget {
    pub fn new(request: &ClaimRequest) -> Self {
        Self {
            bytes_left: request.payload_bytes_max,
            event_bytes_max: request.event_payload_bytes_max.unwrap_or(usize::MAX),
            has_granted: false,
            refused: 0,
        }
    }

    /// Counts an event and returns true if its payload fits. Returns false if the claim must not grant the event. The
    /// claim then grants no later event of the same queue either, so that each queue is consumed in order.
    pub fn take(&mut self, payload_bytes: usize) -> bool {
        let fits = payload_bytes <= self.next_event_bytes_max();
        if !fits {
            self.refused += 1;
        } else if self.has_granted {
            self.bytes_left -= payload_bytes;
        } else {
            self.has_granted = true;
        }
        fits
    }

    /// Returns the size of the largest payload that fits next.
    pub fn next_event_bytes_max(&self) -> usize {
        if self.has_granted { self.event_bytes_max.min(self.bytes_left) } else { self.event_bytes_max }
    }

    /// Returns the bytes left for events after the first one.
    pub fn bytes_left(&self) -> usize {
        self.bytes_left
    }

    /// Returns the maximum size of the payload of each event.
    pub fn event_bytes_max(&self) -> usize {
        self.event_bytes_max
    }

    /// Returns whether the claim has granted an event.
    pub fn has_granted(&self) -> bool {
        self.has_granted
    }

    /// Returns how many events did not fit.
    pub fn refused(&self) -> usize {
        self.refused
    }
}

/// Splits the leases that a repeated claim holds, given as payload size and value, into those that it keeps and those
/// that it releases. It keeps the largest one, and of the others the smallest that fit `payload_bytes_max` together. So a
/// claim that is repeated with its first limit keeps all.
pub fn split_held<T: Ord>(mut held: Vec<(usize, T)>, payload_bytes_max: usize) -> (Vec<T>, Vec<T>) {
    held.sort_unstable();
    let largest = held.pop();
    let mut bytes = 0_usize;
    let (mut kept, mut released) = (Vec::new(), Vec::new());
    for (payload_bytes, value) in held {
        bytes = bytes.saturating_add(payload_bytes);
        let part = if bytes <= payload_bytes_max { &mut kept } else { &mut released };
        part.push(value);
    }
    kept.extend(largest.map(|(_, value)| value));
    (kept, released)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial;

    fn budget(payload_bytes_max: usize, event_payload_bytes_max: Option<usize>) -> PayloadBudget {
        PayloadBudget::new(&ClaimRequest { payload_bytes_max, event_payload_bytes_max, ..trial::claim() })
    }

    #[test]
    fn the_first_event_is_granted_whatever_its_size_and_not_counted() {
        let mut budget = budget(10, None);
        assert!(budget.take(1_000));
        assert!(budget.take(4) && budget.take(6));
        assert_eq!(budget.refused(), 0);
        assert!(!budget.take(1));
        assert_eq!((budget.refused(), budget.next_event_bytes_max()), (1, 0));
        assert!(budget.take(0), "an empty payload always fits");
    }

    #[test]
    fn an_event_beyond_the_size_of_each_event_is_not_granted_even_first() {
        let mut budget = budget(100, Some(5));
        assert!(!budget.take(6));
        assert!(budget.take(5) && budget.take(5));
    }

    #[test]
    fn a_repeated_claim_keeps_the_largest_lease_and_the_smallest_others() {
        let held = vec![(7, 'a'), (1, 'b'), (9, 'c'), (2, 'd')];
        assert_eq!(split_held(held.clone(), 10), (vec!['b', 'd', 'a', 'c'], vec![]));
        assert_eq!(split_held(held.clone(), 9), (vec!['b', 'd', 'c'], vec!['a']));
        assert_eq!(split_held(held, 0), (vec!['c'], vec!['b', 'd', 'a']));
        assert_eq!(split_held::<char>(vec![], 0), (vec![], vec![]));
    }
}
