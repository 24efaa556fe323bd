//! The log of notices, which subscribers of the topic read.

use posthaste_domain::Notice;

/// A position in the log of notices. Positions grow in the order in which notices become visible.
///
/// The store defines the two numbers. Where sequence numbers alone are not in commit order, `major` orders the commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NoticeCursor {
    pub major: i64,
    pub minor: i64,
}

/// A notice with its position in the log of notices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedNotice {
    pub cursor: NoticeCursor,
    pub notice: Notice,
}

/// A page of the log of notices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoticePage {
    pub notices: Vec<PublishedNotice>,
    /// Where the next page starts: after the last notice of this page, or at the end of the log.
    pub cursor: NoticeCursor,
}

impl NoticePage {
    /// Returns whether the log ends before `after`, the cursor from which this page was read. The store was then restored
    /// from a backup, or a failover lost the latest commits. Reading continues from the end of the log.
    pub fn ends_before(&self, after: NoticeCursor) -> bool {
        self.cursor < after
    }
}
