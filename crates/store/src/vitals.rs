//! Signs of life of a store.

use posthaste_domain::Timestamp;

/// The answer of a store that is reached and works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vitals {
    /// The clock that leases and retries are counted by.
    pub now: Timestamp,
    /// The version of the schema as it is, and the one that this process works with.
    pub schema: i64,
    pub schema_known: i64,
}

impl Vitals {
    pub const fn is_current(&self) -> bool {
        self.schema == self.schema_known
    }
}
