//! The log of notices, which subscribers of the topic read.

use posthaste_domain::{DestinationUrl, Notice};

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
    /// The event of the notice, as it is when the notice is read. `None` after the event was discarded.
    pub subject: Option<NoticeSubject>,
}

/// What the event of a notice is, and where it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoticeSubject {
    pub event_type: String,
    /// The present URL of an endpoint, or the URL to which the event was enqueued.
    pub destination_url: DestinationUrl,
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
