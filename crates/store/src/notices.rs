//! The log of notices, for whoever follows the topic.

use posthaste_domain::Notice;

/// A place in the log, growing in the order in which notices become visible. How a store fills the two numbers is
/// its own business; where sequence numbers alone are not in commit order, the first can say which came first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NoticeCursor {
    pub major: i64,
    pub minor: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedNotice {
    pub cursor: NoticeCursor,
    pub notice: Notice,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoticePage {
    pub notices: Vec<PublishedNotice>,
    /// Where to go on: the last notice of the page, or the end of the log.
    pub cursor: NoticeCursor,
}
