//! Lists of the registry: pages that continue after a row, or before one.

/// Maximum number of rows of a list: 1 to 250, by default 50.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListLimit(usize);

/// A limit outside 1 to 250.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("limit must be 1 to {max}, got {0}", max = ListLimit::MAX)]
pub struct InvalidListLimit(pub i64);

impl ListLimit {
    pub const MAX: usize = 250;

    /// Validates a limit.
    pub fn new(limit: i64) -> Result<Self, InvalidListLimit> {
        match usize::try_from(limit) {
            Ok(limit @ 1..=Self::MAX) => Ok(Self(limit)),
            _ => Err(InvalidListLimit(limit)),
        }
    }

    pub const fn get(self) -> usize {
        self.0
    }
}

impl Default for ListLimit {
    fn default() -> Self {
        Self(50)
    }
}

/// Where a page of a list begins or ends. `K` identifies a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListFrom<K> {
    /// The first rows of the list.
    Start,
    /// The rows that follow this one.
    After(K),
    /// The rows right before this one.
    Before(K),
}

/// Which page of a list to return. A page has the rows in the order of the list, also if it ends before a row. A row that no
/// longer exists has no rows before or after it, unless rows are ordered by `K` itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListRequest<K> {
    pub from: ListFrom<K>,
    pub limit: ListLimit,
}

/// The first page, with the default limit.
impl<K> Default for ListRequest<K> {
    fn default() -> Self {
        Self { from: ListFrom::Start, limit: ListLimit::default() }
    }
}

impl<K> ListRequest<K> {
    /// Translates the row that the page begins after or ends before. `None` if `translate` finds no such row.
    pub fn try_map<L>(&self, translate: impl FnOnce(&K) -> Option<L>) -> Option<ListRequest<L>> {
        let from = match &self.from {
            ListFrom::Start => ListFrom::Start,
            ListFrom::After(row) => ListFrom::After(translate(row)?),
            ListFrom::Before(row) => ListFrom::Before(translate(row)?),
        };
        Some(ListRequest { from, limit: self.limit })
    }

    /// Cuts the page out of all rows, which are in the order of the list. `compare` orders a row relative to the one that the
    /// request names. For stores that hold all rows in memory.
    pub fn cut<T>(&self, rows: Vec<T>, compare: impl Fn(&T, &K) -> std::cmp::Ordering) -> List<T> {
        let limit = self.limit.get();
        let mut items: Vec<T> = match &self.from {
            ListFrom::Start => rows,
            ListFrom::After(row) => rows.into_iter().filter(|item| compare(item, row).is_gt()).collect(),
            ListFrom::Before(row) => {
                let mut before: Vec<T> = rows.into_iter().filter(|item| compare(item, row).is_lt()).collect();
                let done = before.len() <= limit;
                let items = before.split_off(before.len().saturating_sub(limit));
                return List { items, done };
            }
        };
        let done = items.len() <= limit;
        items.truncate(limit);
        List { items, done }
    }
}

/// One page of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List<T> {
    pub items: Vec<T>,
    /// Whether no further row follows in the direction of the request.
    pub done: bool,
}

impl<T> List<T> {
    /// A page without rows, at the end of the list.
    pub const fn empty() -> Self {
        Self { items: Vec::new(), done: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(from: ListFrom<i32>, limit: i64) -> (Vec<i32>, bool) {
        let request = ListRequest { from, limit: ListLimit::new(limit).unwrap() };
        let List { items, done } = request.cut(vec![1, 2, 3, 4, 5], Ord::cmp);
        (items, done)
    }

    #[test]
    fn pages_go_both_ways_in_the_order_of_the_list() {
        assert_eq!(cut(ListFrom::Start, 2), (vec![1, 2], false));
        assert_eq!(cut(ListFrom::After(2), 2), (vec![3, 4], false));
        assert_eq!(cut(ListFrom::After(4), 2), (vec![5], true));
        assert_eq!(cut(ListFrom::After(5), 2), (vec![], true));
        assert_eq!(cut(ListFrom::Before(5), 2), (vec![3, 4], false));
        assert_eq!(cut(ListFrom::Before(3), 2), (vec![1, 2], true));
        assert_eq!(cut(ListFrom::Before(1), 2), (vec![], true));
        assert_eq!(cut(ListFrom::Start, 5), (vec![1, 2, 3, 4, 5], true));
    }

    #[test]
    fn a_limit_is_1_to_250_and_50_by_default() {
        assert_eq!(ListLimit::default().get(), 50);
        assert!(ListLimit::new(1).is_ok() && ListLimit::new(250).is_ok());
        for invalid in [i64::MIN, 0, 251, i64::MAX] {
            assert_eq!(ListLimit::new(invalid), Err(InvalidListLimit(invalid)));
        }
    }
}
