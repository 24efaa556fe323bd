//! Pages of lists that are ordered by a key.

use posthaste_store::{List, ListFrom, ListRequest};

/// The part of a list that a page is cut from, and the direction in which it is read.
pub(crate) struct KeyRange<K> {
    /// The page has keys above this one.
    pub(crate) low: K,
    /// The page has keys below this one.
    pub(crate) high: K,
    is_read_backwards: bool,
    is_read_against_the_list: bool,
    limit: usize,
}

impl<K: Clone> KeyRange<K> {
    /// The range of a list in ascending order. `min` and `max` are outside the range of keys.
    pub(crate) fn ascending(request: &ListRequest<K>, min: K, max: K) -> Self {
        let limit = request.limit.get();
        match &request.from {
            ListFrom::Start => Self::new(min, max, false, false, limit),
            ListFrom::After(key) => Self::new(key.clone(), max, false, false, limit),
            ListFrom::Before(key) => Self::new(min, key.clone(), true, true, limit),
        }
    }

    /// The range of a list in descending order. `min` and `max` are outside the range of keys.
    pub(crate) fn descending(request: &ListRequest<K>, min: K, max: K) -> Self {
        let limit = request.limit.get();
        match &request.from {
            ListFrom::Start => Self::new(min, max, true, false, limit),
            ListFrom::After(key) => Self::new(min, key.clone(), true, false, limit),
            ListFrom::Before(key) => Self::new(key.clone(), max, false, true, limit),
        }
    }

    fn new(low: K, high: K, is_read_backwards: bool, is_read_against_the_list: bool, limit: usize) -> Self {
        Self { low, high, is_read_backwards, is_read_against_the_list, limit }
    }

    /// The direction in which a statement reads the keys.
    pub(crate) fn order(&self) -> &'static str {
        if self.is_read_backwards { "DESC" } else { "ASC" }
    }

    /// Makes a page of the rows that a statement returns in this order. Reads one row more than the page holds.
    pub(crate) fn page<T, E>(&self, rows: impl Iterator<Item = Result<T, E>>) -> Result<List<T>, E> {
        let mut items: Vec<T> = rows.take(self.limit + 1).collect::<Result<_, _>>()?;
        let done = items.len() <= self.limit;
        items.truncate(self.limit);
        if self.is_read_against_the_list {
            items.reverse();
        }
        Ok(List { items, done })
    }
}
