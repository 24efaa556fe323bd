//! Pages of lists that continue after a row, or end before one.

use posthaste_store::{List, ListFrom, ListRequest};

/// The two statements of a list: its rows after a position, and its rows before one, read backwards.
pub(crate) struct ListSql {
    pub(crate) forward: &'static crate::session::Sql,
    pub(crate) backward: &'static crate::session::Sql,
}

/// A page to be read: a statement, the position from which it reads, and how many rows.
pub(crate) struct PageQuery<K> {
    pub(crate) sql: &'static crate::session::Sql,
    pub(crate) bound: K,
    /// One more than the page holds, which shows whether there are more.
    pub(crate) rows_max: i64,
    is_backward: bool,
}

impl<K> PageQuery<K> {
    /// Prepares the query of a page. `start` precedes every row of the list.
    pub(crate) fn new(sql: &ListSql, request: &ListRequest<K>, start: K) -> Self
    where
        K: Clone,
    {
        let (sql, bound, is_backward) = match &request.from {
            ListFrom::Start => (sql.forward, start, false),
            ListFrom::After(row) => (sql.forward, row.clone(), false),
            ListFrom::Before(row) => (sql.backward, row.clone(), true),
        };
        let rows_max = i64::try_from(request.limit.get()).expect("a list limit is small") + 1;
        Self { sql, bound, rows_max, is_backward }
    }

    /// Builds the page from the rows that the statement returned.
    pub(crate) fn page<T>(&self, mut items: Vec<T>) -> List<T> {
        let limit = usize::try_from(self.rows_max - 1).expect("a list limit is small");
        let done = items.len() <= limit;
        items.truncate(limit);
        if self.is_backward {
            items.reverse();
        }
        List { items, done }
    }
}

/// Declares the statements of a list whose rows are ordered by one number. `$select` ends with a condition; the position is $2 and
/// the number of rows $3.
macro_rules! list_by_number {
    ($name:ident, $select:expr, $key:literal, ascending, $types:expr) => {
        static $name: crate::registry::ListSql = crate::registry::ListSql {
            forward: &crate::session::Sql {
                text: concat!($select, " AND ", $key, " > $2 ORDER BY ", $key, " LIMIT $3"),
                types: $types,
            },
            backward: &crate::session::Sql {
                text: concat!($select, " AND ", $key, " < $2 ORDER BY ", $key, " DESC LIMIT $3"),
                types: $types,
            },
        };
    };
    ($name:ident, $select:expr, $key:literal, descending, $types:expr) => {
        static $name: crate::registry::ListSql = crate::registry::ListSql {
            forward: &crate::session::Sql {
                text: concat!($select, " AND ", $key, " < $2 ORDER BY ", $key, " DESC LIMIT $3"),
                types: $types,
            },
            backward: &crate::session::Sql {
                text: concat!($select, " AND ", $key, " > $2 ORDER BY ", $key, " LIMIT $3"),
                types: $types,
            },
        };
    };
}

pub(crate) use list_by_number;
