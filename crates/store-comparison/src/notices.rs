//! Comparison of the notices. Each notice appears once, in the order of the operations that published it. The notices of
//! one operation, which may be one commit, may be in any order.

use std::collections::BTreeSet;

use posthaste_domain::{EndpointId, Notice, NoticeEndpoint};
use posthaste_store::{NoticeCursor, NoticePage, PublishedNotice, Store};

use crate::difference::{ComparisonResult, Difference, compare};
use crate::operation::{Handle, RecencyIndex};
use crate::sequence_run::SequenceRun;

/// Notices per page when reading new notices.
const PAGE_SIZE: usize = 20;

/// The notices that the store and the model have published so far.
#[derive(Debug)]
pub(crate) struct NoticeLog {
    entries: Vec<LogEntry>,
    /// Cursors that the store has returned, each with the number of entries before it.
    cursors: Vec<(NoticeCursor, usize)>,
    /// Cursors up to which each log has been read.
    store_end: NoticeCursor,
    model_end: NoticeCursor,
}

/// A notice that both the store and the model have published.
#[derive(Debug)]
struct LogEntry {
    store_cursor: NoticeCursor,
    model: PublishedNotice,
    is_removed: bool,
}

impl NoticeLog {
    pub(crate) async fn start(store: &dyn Store) -> ComparisonResult<Self> {
        let page = read_page(store, None, PAGE_SIZE).await?;
        compare("the notices returned without a cursor", &Vec::new(), &page.notices)?;
        Ok(Self {
            entries: Vec::new(),
            cursors: vec![(page.cursor, 0)],
            store_end: page.cursor,
            model_end: NoticeCursor::default(),
        })
    }
}

impl SequenceRun<'_> {
    /// Reads the new notices of both and compares them.
    pub(crate) async fn compare_new_notices(&mut self, store: &dyn Store) -> ComparisonResult {
        let mut published = Vec::new();
        loop {
            let page = read_page(store, Some(self.log.store_end), PAGE_SIZE).await?;
            self.log.store_end = page.cursor;
            let is_last = page.notices.len() < PAGE_SIZE;
            published.extend(page.notices);
            if is_last {
                break;
            }
        }
        let mut expected: Vec<PublishedNotice> = self.model.with_state(|state| {
            let new = state.notices.iter().filter(|published| published.cursor > self.log.model_end);
            new.cloned().collect()
        });
        self.log.model_end = expected.last().map_or(self.log.model_end, |last| last.cursor);
        self.tally.add("notices", expected.len());
        for published in published {
            let PublishedNotice { cursor, notice, .. } = &published;
            let event_id = self.ids.events.model_of(&notice.event_id)?;
            let is_of_event = |expected: &PublishedNotice| expected.notice.event_id == event_id;
            let is_same =
                |expected: &PublishedNotice| is_of_event(expected) && expected.notice.kind == notice.kind;
            let index = expected.iter().position(is_same).or_else(|| expected.iter().position(is_of_event));
            let index = index.ok_or_else(|| Difference::new(format!("an unexpected notice: {notice:?}")))?;
            let model = expected.remove(index);
            self.compare_notices(&published.notice, &model.notice)?;
            self.compare_subjects(&published, &model.notice)?;
            self.log.entries.push(LogEntry { store_cursor: *cursor, model, is_removed: false });
            self.log.cursors.push((*cursor, self.log.entries.len()));
        }
        match expected.first() {
            None => Ok(()),
            Some(missing) => Err(Difference::new(format!("a notice is missing: {:?}", missing.notice))),
        }
    }

    /// Compares one page after an earlier cursor; without a cursor, the end of the log.
    pub(crate) async fn compare_earlier_notices(
        &mut self,
        handle: Handle,
        after: Option<RecencyIndex>,
        limit: usize,
    ) -> ComparisonResult<String> {
        let store = self.store(handle);
        let start = after.and_then(|index| index.pick(&self.log.cursors).copied());
        let page = read_page(&*store, start.map(|(cursor, _)| cursor), limit).await?;
        let skipped = start.map_or(self.log.entries.len(), |(_, before)| before);
        let expected: Vec<usize> = (skipped..self.log.entries.len())
            .filter(|index| !self.log.entries[*index].is_removed)
            .take(limit)
            .collect();
        self.compare_notice_page(&page, &expected)?;
        for (published, index) in page.notices.iter().zip(&expected) {
            self.compare_subjects(published, &self.log.entries[*index].model.notice)?;
        }
        let before = expected.last().map_or(self.log.entries.len(), |last| last + 1);
        self.log.cursors.push((page.cursor, before));
        Ok(format!("{} notices", page.notices.len()))
    }

    /// Marks the notices that retention has removed from the model.
    pub(crate) fn mark_removed_notices(&mut self) {
        let kept: BTreeSet<NoticeCursor> =
            self.model.with_state(|state| state.notices.iter().map(|published| published.cursor).collect());
        for entry in &mut self.log.entries {
            entry.is_removed |= !kept.contains(&entry.model.cursor);
        }
    }

    /// Reads the whole log from its start and compares it with the notices that retention keeps.
    pub(crate) async fn compare_kept_notices(&mut self, handle: Handle) -> ComparisonResult {
        let (start, _) = self.log.cursors[0];
        let kept: Vec<usize> =
            (0..self.log.entries.len()).filter(|index| !self.log.entries[*index].is_removed).collect();
        let page = read_page(&*self.store(handle), Some(start), kept.len() + 1).await?;
        self.compare_notice_page(&page, &kept)
    }

    fn compare_notice_page(&self, page: &NoticePage, expected: &[usize]) -> ComparisonResult {
        let cursors: Vec<_> = page.notices.iter().map(|published| published.cursor).collect();
        let entries = expected.iter().map(|index| &self.log.entries[*index]);
        let expected: Vec<_> = entries.clone().map(|entry| entry.store_cursor).collect();
        compare("the page of notices", &expected, &cursors)?;
        for (published, entry) in page.notices.iter().zip(entries) {
            self.compare_notices(&published.notice, &entry.model.notice)?;
        }
        Ok(())
    }

    /// Compares what is said of the event of a notice, which may have changed since the notice.
    fn compare_subjects(&self, store: &PublishedNotice, model: &Notice) -> ComparisonResult {
        let subject = self.model.with_state(|state| state.notice_subject(&model.event_id));
        compare(&format!("the event of the notice of {}", store.notice.event_id), &subject, &store.subject)
    }

    fn compare_notices(&self, store: &Notice, model: &Notice) -> ComparisonResult {
        let converted = Notice {
            event_id: self.ids.events.model_of(&store.event_id)?,
            webhook_id: store.webhook_id.as_ref().map(|id| self.ids.name_to_model(id)),
            at: self.clock_offset.to_model(store.at, model.at),
            endpoint: store.endpoint.map(|endpoint| self.notice_endpoint_to_model(endpoint)).transpose()?,
            ..store.clone()
        };
        compare(&format!("the notice of {}", store.event_id), model, &converted)
    }

    fn notice_endpoint_to_model(&self, store: NoticeEndpoint) -> ComparisonResult<NoticeEndpoint> {
        Ok(NoticeEndpoint {
            id: EndpointId(self.ids.destinations.model_of(&store.id.0)?),
            app: self.ids.applications.model_of(&store.app)?,
        })
    }
}

/// Reads a page of notices and checks its order, its length and its cursor.
async fn read_page(
    store: &dyn Store,
    after: Option<NoticeCursor>,
    limit: usize,
) -> ComparisonResult<NoticePage> {
    let page = store.notices(after, limit).await.map_err(|error| Difference::failed("notices", &error))?;
    let mut last = after;
    for published in &page.notices {
        if last.is_some_and(|last| published.cursor <= last) {
            return Err(Difference::new(format!("notices after {after:?} do not ascend: {page:?}")));
        }
        last = Some(published.cursor);
    }
    let is_cursor_right = match page.notices.last() {
        Some(last) => page.cursor == last.cursor,
        None => after.is_none_or(|after| page.cursor >= after),
    };
    if page.notices.len() > limit || !is_cursor_right {
        return Err(Difference::new(format!("a page of {limit} notices after {after:?} is wrong: {page:?}")));
    }
    Ok(page)
}
