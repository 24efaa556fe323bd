//! The clock of an embedded store.

use posthaste_domain::Timestamp;

/// The clock that an embedded store reads. A database server uses its own clock instead.
pub trait StoreClock: Send + Sync + 'static {
    fn now(&self) -> Timestamp;
}
