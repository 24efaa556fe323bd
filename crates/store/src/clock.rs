//! The clock of a store that has none of its own.

use posthaste_domain::Timestamp;

/// Read by embedded stores. A database server reads its own.
pub trait StoreClock: Send + Sync + 'static {
    fn now(&self) -> Timestamp;
}
