//! Cache of the ids of destinations that this process has stored events for.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Destination ids by URL. The insert statement verifies them, so a stale entry costs a lookup and no more.
#[derive(Default)]
pub(crate) struct DestinationIds {
    ids: Mutex<HashMap<String, i64>>,
}

impl DestinationIds {
    /// Beyond this many entries the cache starts over.
    const ENTRIES_MAX: usize = 100_000;

    /// The ids of these URLs, in order; none where an id is not cached.
    pub(super) fn get(&self, urls: &[&str]) -> Vec<Option<i64>> {
        let ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        urls.iter().map(|url| ids.get(*url).copied()).collect()
    }

    /// Caches the ids of these URLs, in order.
    pub(super) fn insert(&self, urls: &[&str], found: &[i64]) {
        let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        if ids.len() + urls.len() > Self::ENTRIES_MAX {
            ids.clear();
        }
        ids.extend(urls.iter().map(|url| (*url).to_owned()).zip(found.iter().copied()));
    }

    pub(crate) fn clear(&self) {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
