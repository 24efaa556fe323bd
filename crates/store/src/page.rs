//! Keyset pagination: each page continues after the last row of the page before, even if rows change in between.

use posthaste_domain::{EventKey, Timestamp};

/// Maximum number of rows on a page: 1 to 200, by default 50.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageLimit(usize);

/// A page limit outside 1 to 200.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("limit must be 1 to {max}, got {0}", max = PageLimit::MAX)]
pub struct InvalidPageLimit(pub i64);

impl PageLimit {
    pub const MAX: usize = 200;

    /// Validates a limit.
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

/// The position of a row in a listing: the next page starts after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct PageCursor {
    /// The time by which the listing is sorted.
    pub at: Timestamp,
    pub key: EventKey,
}

/// Which page to list. `C` is the position of a row in the listing.
#[derive(Debug, Clone, Copy)]
pub struct PageRequest<C = PageCursor> {
    /// The position to continue after. `None` starts with the first page.
    pub after: Option<C>,
    pub limit: PageLimit,
}

/// The first page, with the default limit.
impl<C> Default for PageRequest<C> {
    fn default() -> Self {
        Self { after: None, limit: PageLimit::default() }
    }
}

/// One page of a listing. `C` is the position of a row in the listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T, C = PageCursor> {
    pub items: Vec<T>,
    /// The position to continue after, or `None` on the last page. A page of a search may be short, or empty, and still have
    /// a next page: [`ExamineLimit`](crate::ExamineLimit).
    pub next: Option<C>,
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
