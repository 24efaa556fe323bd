//! A walk over the entries of an index, as a statement.

use posthaste_domain::EventKey;
use posthaste_store::{EventView, ExamineLimit, Page, PageCursor, PageRequest};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, params_from_iter};

use crate::error::CallError;
use crate::row::{self, event_columns};

/// A walk over the entries `l` of an index, and the conditions on them and on their events `e`.
#[derive(Debug)]
pub(crate) struct Walk {
    /// The table and the index.
    from: &'static str,
    /// The order of the list, newest first.
    order: &'static str,
    /// The conditions that the index serves: they limit the walk to a range.
    range: Vec<String>,
    /// The other conditions. Entries that do not meet them are examined and left out.
    filter: Vec<String>,
    /// The parameters of the range, of which the end comes first, followed by those of the filter.
    params: Vec<Value>,
    range_param_count: usize,
}

impl Walk {
    /// A walk that ends where `end` is false. `??` stands for the values.
    pub(super) fn new<const N: usize>(
        from: &'static str,
        order: &'static str,
        end: &str,
        values: [Value; N],
    ) -> Self {
        let (range, filter, params) = (Vec::new(), Vec::new(), Vec::new());
        Self { from, order, range, filter, params, range_param_count: 0 }.within(end, values)
    }

    /// Limits the walk. `??` stands for the values.
    pub(super) fn within<const N: usize>(mut self, condition: &str, values: [Value; N]) -> Self {
        assert!(self.filter.is_empty(), "the parameters of the range come first");
        let condition = self.number(condition, values);
        self.range.push(condition);
        self.range_param_count = self.params.len();
        self
    }

    /// Leaves out entries that do not meet a condition, if there is a value. `??` stands for the value.
    pub(super) fn only(mut self, condition: &str, value: Option<impl Into<Value>>) -> Self {
        if let Some(value) = value {
            let condition = self.number(condition, [value.into()]);
            self.filter.push(condition);
        }
        self
    }

    /// Leaves out entries that do not meet a condition without a value.
    pub(super) fn only_if(mut self, applies: bool, condition: &str) -> Self {
        self.filter.extend(applies.then(|| condition.to_owned()));
        self
    }

    /// Adds parameters, and writes their numbers into a condition.
    fn number<const N: usize>(&mut self, condition: &str, values: [Value; N]) -> String {
        let mut condition = condition.to_owned();
        for value in values {
            self.params.push(value);
            condition = condition.replacen("??", &format!("?{}", self.params.len()), 1);
        }
        condition
    }

    /// Builds the statement for up to `rows` events. The newest event comes first, without a sort.
    pub(crate) fn page_sql(&self, rows: usize) -> String {
        let conditions: String =
            self.range.iter().chain(&self.filter).map(|condition| format!(" AND {condition}")).collect();
        format!(
            "SELECT {} FROM {} CROSS JOIN webhook_events e CROSS JOIN webhook_outbox_events v
             WHERE e.id = l.id AND v.id = l.id{conditions}
             ORDER BY {} LIMIT {rows}",
            event_columns!(),
            self.from,
            self.order,
        )
    }

    /// Builds the statement for the last entry that a page may examine. It finds none if the walk ends before.
    pub(crate) fn last_examined_sql(&self, limit: ExamineLimit) -> String {
        let (range, last) = (self.range.join(" AND "), limit.get() - 1);
        format!("SELECT l.id FROM {} WHERE {range} ORDER BY {} LIMIT 1 OFFSET {last}", self.from, self.order)
    }

    #[cfg(test)]
    pub(crate) fn params(&self) -> &[Value] {
        &self.params
    }

    /// Lists the events of a page. `end_at` returns the values of the end of a walk whose last entry has this position.
    pub(super) fn list<const N: usize>(
        mut self,
        db: &Connection,
        page: &PageRequest,
        examine: ExamineLimit,
        position: impl Fn(&EventView) -> PageCursor,
        end_at: impl Fn(PageCursor) -> [Value; N],
    ) -> Result<Page<EventView>, CallError> {
        let mut last_examined = None;
        if !self.filter.is_empty() {
            let range_params = &self.params[..self.range_param_count];
            let key = db
                .prepare_cached(&self.last_examined_sql(examine))?
                .query_row(params_from_iter(range_params), |row| row.get(0).map(EventKey))
                .optional()?;
            if let Some(key) = key {
                let last = position(&row::read_event(db, key)?);
                self.params[..N].clone_from_slice(&end_at(last));
                last_examined = Some(last);
            }
        }
        // A page has no more events than it may examine.
        let limit = page.limit.get().min(examine.get());
        let mut items: Vec<EventView> = db
            .prepare_cached(&self.page_sql(limit + 1))?
            .query_map(params_from_iter(&self.params), row::event_view)?
            .collect::<Result<_, _>>()?;
        // An event beyond the page's limit means that there is a next page.
        let has_more = items.len() > limit;
        items.truncate(limit);
        let next = if has_more { items.last().map(position) } else { last_examined };
        Ok(Page { items, next })
    }
}
