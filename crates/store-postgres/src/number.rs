//! Numbers as PostgreSQL has them.

/// Counts are never negative; the schema's type is signed because SQL has no other.
pub(crate) fn count(stored: i32) -> u32 {
    u32::try_from(stored).unwrap_or(0)
}
