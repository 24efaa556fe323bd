//! The log of notices: each once, in the order of the operations that brought them. Those of one operation, which may
//! be one commit, come in any order.

use std::collections::BTreeSet;

use posthaste_domain::Notice;
use posthaste_store::{NoticeCursor, NoticePage, PublishedNotice, Store};

use crate::difference::{Agreed, Difference, same};
use crate::operation::{Handle, Nth};
use crate::pair::Pair;

/// Notices on a page of a follower.
const PAGE: usize = 20;

#[derive(Debug)]
pub(crate) struct Log {
    entries: Vec<Entry>,
    /// Cursors of the store, and how many entries come before each.
    places: Vec<(NoticeCursor, usize)>,
    /// How far each log was followed.
    store_end: NoticeCursor,
    model_end: NoticeCursor,
}

/// A notice that both have published.
#[derive(Debug)]
struct Entry {
    store_cursor: NoticeCursor,
    model: PublishedNotice,
    is_forgotten: bool,
}

impl Log {
    pub(crate) async fn start(store: &dyn Store) -> Agreed<Self> {
        let page = read(store, None, PAGE).await?;
        same("what is published without a cursor", &Vec::new(), &page.notices)?;
        Ok(Self {
            entries: Vec::new(),
            places: vec![(page.cursor, 0)],
            store_end: page.cursor,
            model_end: NoticeCursor::default(),
        })
    }
}

impl Pair<'_> {
    /// Reads on in both logs.
    pub(crate) async fn follow_notices(&mut self, store: &dyn Store) -> Agreed {
        let mut published = Vec::new();
        loop {
            let page = read(store, Some(self.log.store_end), PAGE).await?;
            self.log.store_end = page.cursor;
            let is_last = page.notices.len() < PAGE;
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
        self.tally.count("notices", expected.len());
        for PublishedNotice { cursor, notice } in published {
            let event_id = self.names.events.model_of(&notice.event_id)?;
            let place = expected.iter().position(|expected| expected.notice.event_id == event_id);
            let place = place.ok_or_else(|| Difference::new(format!("a notice too many: {notice:?}")))?;
            let model = expected.remove(place);
            self.same_notice(&notice, &model.notice)?;
            self.log.entries.push(Entry { store_cursor: cursor, model, is_forgotten: false });
            self.log.places.push((cursor, self.log.entries.len()));
        }
        match expected.first() {
            None => Ok(()),
            Some(missing) => Err(Difference::new(format!("a notice is missing: {:?}", missing.notice))),
        }
    }

    /// One page from any earlier place, or where the log ends now.
    pub(crate) async fn page_of_notices(
        &mut self,
        handle: Handle,
        after: Option<Nth>,
        limit: usize,
    ) -> Agreed<String> {
        let store = self.store(handle);
        let place = after.and_then(|nth| nth.of(&self.log.places).copied());
        let page = read(&*store, place.map(|(cursor, _)| cursor), limit).await?;
        let skipped = place.map_or(self.log.entries.len(), |(_, before)| before);
        let expected: Vec<usize> = (skipped..self.log.entries.len())
            .filter(|index| !self.log.entries[*index].is_forgotten)
            .take(limit)
            .collect();
        self.same_page_of_notices(&page, &expected)?;
        let before = expected.last().map_or(self.log.entries.len(), |last| last + 1);
        self.log.places.push((page.cursor, before));
        Ok(format!("{} notices", page.notices.len()))
    }

    /// Marks what retention has removed from the model.
    pub(crate) fn forget_notices(&mut self) {
        let kept: BTreeSet<NoticeCursor> =
            self.model.with_state(|state| state.notices.iter().map(|published| published.cursor).collect());
        for entry in &mut self.log.entries {
            entry.is_forgotten |= !kept.contains(&entry.model.cursor);
        }
    }

    /// The whole log from its start.
    pub(crate) async fn reread_notices(&mut self, handle: Handle) -> Agreed {
        let (start, _) = self.log.places[0];
        let kept: Vec<usize> =
            (0..self.log.entries.len()).filter(|index| !self.log.entries[*index].is_forgotten).collect();
        let page = read(&*self.store(handle), Some(start), kept.len() + 1).await?;
        self.same_page_of_notices(&page, &kept)
    }

    fn same_page_of_notices(&self, page: &NoticePage, expected: &[usize]) -> Agreed {
        let cursors: Vec<_> = page.notices.iter().map(|published| published.cursor).collect();
        let entries = expected.iter().map(|index| &self.log.entries[*index]);
        let expected: Vec<_> = entries.clone().map(|entry| entry.store_cursor).collect();
        same("the page of notices", &expected, &cursors)?;
        for (published, entry) in page.notices.iter().zip(entries) {
            self.same_notice(&published.notice, &entry.model.notice)?;
        }
        Ok(())
    }

    fn same_notice(&self, store: &Notice, model: &Notice) -> Agreed {
        let told = Notice {
            event_id: self.names.events.model_of(&store.event_id)?,
            at: self.moments.as_model(store.at, model.at),
            ..store.clone()
        };
        same(&format!("the notice of {}", store.event_id), model, &told)
    }
}

/// A page holds what was asked for, in order, and says where to go on.
async fn read(store: &dyn Store, after: Option<NoticeCursor>, limit: usize) -> Agreed<NoticePage> {
    let page = store.notices(after, limit).await.map_err(|error| Difference::failed("notices", &error))?;
    let mut last = after;
    for published in &page.notices {
        if last.is_some_and(|last| published.cursor <= last) {
            return Err(Difference::new(format!("notices after {after:?} do not ascend: {page:?}")));
        }
        last = Some(published.cursor);
    }
    let goes_on = match page.notices.last() {
        Some(last) => page.cursor == last.cursor,
        None => after.is_none_or(|after| page.cursor >= after),
    };
    if page.notices.len() > limit || !goes_on {
        return Err(Difference::new(format!("a page of {limit} notices after {after:?} is wrong: {page:?}")));
    }
    Ok(page)
}
