//! Keyset pagination: a page continues after the last row of the one before, whatever happened in between.

use posthaste_domain::{DeliveryStatus, DestinationUrl, EventKey, Timestamp};

/// Rows on a page: 1 to 200, 50 unless asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageLimit(usize);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("limit must be 1 to {max}, got {0}", max = PageLimit::MAX)]
pub struct InvalidPageLimit(pub i64);

impl PageLimit {
    pub const MAX: usize = 200;

    pub fn new(limit: i64) -> Result<Self, InvalidPageLimit> {
        match usize::try_from(limit) {
            Ok(limit @ 1..=Self::MAX) => Ok(Self(limit)),
            _ => Err(InvalidPageLimit(limit)),
        }
    }

    pub const fn get(self) -> usize {
        self.0
    }
}

impl Default for PageLimit {
    fn default() -> Self {
        Self(50)
    }
}

/// The last row of a page in the listing's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    pub at: Timestamp,
    pub key: EventKey,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct PageRequest {
    pub after: Option<Cursor>,
    pub limit: PageLimit,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Where the next page starts; none on the last.
    pub next: Option<Cursor>,
}

/// Which events to list.
#[derive(Debug, Clone, Default)]
pub struct EventQuery {
    pub status: Option<DeliveryStatus>,
    pub destination: Option<DestinationUrl>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s2_fr003_ac2_limit_defaults_to_50_and_is_valid_from_1_to_200() {
        assert_eq!(PageLimit::default().get(), 50);
        for valid in [1, 50, 200] {
            assert!(PageLimit::new(valid).is_ok(), "{valid}");
        }
        for invalid in [i64::MIN, -1, 0, 201, i64::MAX] {
            assert_eq!(PageLimit::new(invalid), Err(InvalidPageLimit(invalid)));
        }
    }
}
