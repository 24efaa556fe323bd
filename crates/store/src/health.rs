//! The health check of a store.

use posthaste_domain::Timestamp;

/// The clock and the schema version of a reachable store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreHealth {
    /// The time of the store's clock, which dates leases and retries.
    pub now: Timestamp,
    /// The schema version of the store.
    pub schema: i64,
    /// The schema version that this process supports.
    pub schema_supported: i64,
}

impl StoreHealth {
    /// Returns true if the store has the schema version that this process supports.
    pub const fn is_current(&self) -> bool {
        self.schema == self.schema_supported
    }
}
