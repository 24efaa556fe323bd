//! The log of notices, for whoever follows the topic.

use posthaste_domain::Notice;

/// A place in the log. Grows in commit order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NoticeCursor(pub i64);

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
