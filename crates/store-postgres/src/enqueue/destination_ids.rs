//! Cache of the ids of destinations that this process has stored events for.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// A cache of destination ids by URL. The insert statement verifies the ids, so a stale entry costs only a lookup.
#[derive(Default)]
pub(crate) struct DestinationIds {
    ids: Mutex<HashMap<String, i64>>,
}

impl DestinationIds {
    /// Maximum number of entries. A full cache is emptied.
    const ENTRIES_MAX: usize = 100_000;

    /// Returns the ids of these URLs, in order; None for an id that is not cached.
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
