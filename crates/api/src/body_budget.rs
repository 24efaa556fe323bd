//! The memory of all request bodies that are being read or handled.
//!
//! Bytes are counted as they arrive, not as declared. When the limit is reached, the oldest body continues and every other
//! body that needs more bytes is refused at once: a body that waited would hold the bytes that others wait for. So some body
//! always completes, and the bytes exceed the limit by one body at most. The first bytes of each body are not counted, so
//! that small requests succeed beside any number of large ones; the number of connections bounds them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The limit for all bodies together.
const BYTES_MAX: usize = 48 << 20;
/// The first bytes of each body, which are not counted.
pub(crate) const UNCOUNTED_BYTES: usize = 16 << 10;

/// Counts the bytes of request bodies in memory.
#[derive(Default)]
pub(crate) struct BodyBudget(Mutex<BytesInMemory>);

#[derive(Default)]
struct BytesInMemory {
    bytes: usize,
    /// The numbers of the bodies with counted bytes, the oldest first.
    bodies: BTreeSet<u64>,
    last_number: u64,
}

impl BodyBudget {
    /// Returns the number of counted bytes.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> usize {
        self.state().bytes
    }

    fn state(&self) -> MutexGuard<'_, BytesInMemory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The counted bytes of one body. Dropping it releases them.
pub(crate) struct CountedBytes {
    budget: Arc<BodyBudget>,
    /// The number of the body, once it has counted bytes.
    number: Option<u64>,
    bytes: usize,
}

impl CountedBytes {
    pub(crate) fn new(budget: &Arc<BodyBudget>) -> Self {
        Self { budget: Arc::clone(budget), number: None, bytes: 0 }
    }

    /// Counts a body that has `received_bytes` by now. Returns false if the limit is reached and an older body needs the
    /// bytes.
    pub(crate) fn grow_to(&mut self, received_bytes: usize) -> bool {
        let counted = received_bytes.saturating_sub(UNCOUNTED_BYTES);
        let added = counted.saturating_sub(self.bytes);
        if added == 0 {
            return true;
        }
        let mut state = self.budget.state();
        let is_oldest = match (state.bodies.first(), self.number) {
            (None, _) => true,
            (Some(oldest), number) => Some(*oldest) == number,
        };
        if state.bytes + added > BYTES_MAX && !is_oldest {
            return false;
        }
        if self.number.is_none() {
            state.last_number += 1;
            self.number = Some(state.last_number);
            let number = state.last_number;
            state.bodies.insert(number);
        }
        state.bytes += added;
        self.bytes = counted;
        true
    }

    /// Returns whether the body has counted bytes.
    pub(crate) fn is_counted(&self) -> bool {
        self.number.is_some()
    }
}

impl Drop for CountedBytes {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            let mut state = self.budget.state();
            state.bytes -= self.bytes;
            state.bodies.remove(&number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn body(budget: &Arc<BodyBudget>, bytes: usize) -> (CountedBytes, bool) {
        let mut counted = CountedBytes::new(budget);
        let fits = counted.grow_to(bytes);
        (counted, fits)
    }

    #[test]
    fn small_bodies_are_not_counted() {
        let budget = Arc::default();
        let (full, fits) = body(&budget, BYTES_MAX + UNCOUNTED_BYTES);
        assert!(fits && full.is_counted());
        for _ in 0..10_000 {
            let (small, fits) = body(&budget, UNCOUNTED_BYTES);
            assert!(fits && !small.is_counted());
        }
        assert_eq!(budget.bytes(), BYTES_MAX);
    }

    #[test]
    fn at_the_limit_only_the_oldest_body_continues() {
        let budget = Arc::default();
        let (mut oldest, _) = body(&budget, MIB);
        let (mut second, _) = body(&budget, MIB);
        let (filling, fits) = body(&budget, BYTES_MAX - 2 * MIB);
        assert!(fits);
        assert!(!second.grow_to(2 * MIB), "not the oldest");
        assert!(oldest.grow_to(2 * MIB) && oldest.grow_to(16 * MIB), "the oldest exceeds the limit");
        assert!(budget.bytes() <= BYTES_MAX + 16 * MIB);
        drop(oldest);
        assert!(second.grow_to(16 * MIB), "the next one is the oldest then");
        drop((second, filling));
        assert_eq!(budget.bytes(), 0, "dropped bodies release their bytes");
    }
}
