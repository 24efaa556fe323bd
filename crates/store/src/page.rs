//! Keyset pagination: each page continues after the last row of the page before, even if rows change in between.

use posthaste_domain::{DeliveryStatus, DestinationUrl, EndpointId, EventKey, FailureKind, Timestamp};

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
    /// The position to continue after, or `None` on the last page.
    pub next: Option<C>,
}

/// Which dead letters to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeadLetterFilter {
    #[default]
    All,
    /// Every kind but `cancelled`: the events that may wait for a repair.
    NotCancelled,
    Kind(FailureKind),
}

impl DeadLetterFilter {
    /// Returns whether the list contains dead letters of this kind.
    pub fn includes(self, kind: FailureKind) -> bool {
        self.only().is_none_or(|only| kind == only) && self.omitted() != Some(kind)
    }

    /// The one kind that is listed, if the list has only one.
    pub const fn only(self) -> Option<FailureKind> {
        match self {
            Self::Kind(kind) => Some(kind),
            Self::All | Self::NotCancelled => None,
        }
    }

    /// The kind that the list omits, if it omits one.
    pub const fn omitted(self) -> Option<FailureKind> {
        match self {
            Self::NotCancelled => Some(FailureKind::Cancelled),
            Self::All | Self::Kind(_) => None,
        }
    }
}

/// Filters of a list of events. `None` matches every event.
#[derive(Debug, Clone, Default)]
pub struct EventQuery {
    pub status: Option<DeliveryStatus>,
    /// Events that were enqueued to this URL. Events of endpoints with the same URL are not among them.
    pub destination: Option<DestinationUrl>,
    /// Events of this endpoint.
    pub endpoint: Option<EndpointId>,
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
