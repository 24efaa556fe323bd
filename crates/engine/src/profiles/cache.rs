//! The cache of profiles: bounded in bytes, least recently used first out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use posthaste_domain::DestinationId;

use super::profile::Profile;

/// Upper bound of all cached profiles together. About 100,000 destinations with one key each fit.
const BYTES_MAX: usize = 64 << 20;

/// A cached profile, and when its reading was requested.
#[derive(Debug, Clone)]
pub(super) struct CachedProfile {
    pub(super) profile: Arc<Profile>,
    pub(super) read_at: Duration,
}

/// The profiles that were used last.
#[derive(Debug, Default)]
pub(super) struct ProfileCache {
    entries: BTreeMap<DestinationId, Entry>,
    /// The destinations by the number of their last use, oldest first.
    by_use: BTreeMap<u64, DestinationId>,
    use_count: u64,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    cached: CachedProfile,
    last_use: u64,
}

impl ProfileCache {
    /// Finds a profile of this version or a later one, and counts that as a use.
    pub(super) fn find(&mut self, id: DestinationId, version: i64) -> Option<CachedProfile> {
        let entry = self.entries.get_mut(&id).filter(|entry| entry.cached.profile.version() >= version)?;
        self.use_count += 1;
        self.by_use.remove(&entry.last_use);
        entry.last_use = self.use_count;
        self.by_use.insert(self.use_count, id);
        Some(entry.cached.clone())
    }

    pub(super) fn has_version(&self, id: DestinationId, version: i64) -> bool {
        self.entries.get(&id).is_some_and(|entry| entry.cached.profile.version() >= version)
    }

    /// Adds or replaces a profile, and removes those whose last use is the longest ago until all fit.
    pub(super) fn insert(&mut self, id: DestinationId, profile: Arc<Profile>, read_at: Duration) {
        self.remove(id);
        self.use_count += 1;
        self.bytes += profile.bytes();
        self.by_use.insert(self.use_count, id);
        let cached = CachedProfile { profile, read_at };
        self.entries.insert(id, Entry { cached, last_use: self.use_count });
        while self.bytes > BYTES_MAX
            && self.entries.len() > 1
            && let Some(oldest) = self.by_use.first_key_value().map(|(_, oldest)| *oldest)
        {
            self.remove(oldest);
        }
    }

    /// Removes the profile of a destination if it was read before this time.
    pub(super) fn remove_read_before(&mut self, id: DestinationId, time: Duration) {
        if self.entries.get(&id).is_some_and(|entry| entry.cached.read_at < time) {
            self.remove(id);
        }
    }

    fn remove(&mut self, id: DestinationId) {
        if let Some(entry) = self.entries.remove(&id) {
            self.by_use.remove(&entry.last_use);
            self.bytes -= entry.cached.profile.bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use posthaste_domain::CustomHeaders;

    fn profile(version: i64, headers: usize) -> Arc<Profile> {
        let pairs = (0..headers).map(|number| (format!("x-{number}"), "v".repeat(4_000)));
        Arc::new(Profile::new(version, None, CustomHeaders::new(pairs).expect("valid headers")))
    }

    fn id(number: usize) -> DestinationId {
        DestinationId(i64::try_from(number).expect("a small number"))
    }

    #[test]
    fn an_older_version_is_not_found() {
        let mut cache = ProfileCache::default();
        cache.insert(id(1), profile(2, 0), Duration::ZERO);
        assert!(cache.has_version(id(1), 1) && !cache.has_version(id(1), 3));
        assert_eq!(cache.find(id(1), 2).map(|cached| cached.profile.version()), Some(2));
        assert!(cache.find(id(1), 3).is_none() && cache.find(id(2), 1).is_none());
    }

    #[test]
    fn the_least_recently_used_profiles_make_room_in_bytes() {
        let mut cache = ProfileCache::default();
        let large = profile(1, 50);
        let fitting = BYTES_MAX / large.bytes();
        for number in 0..fitting {
            cache.insert(id(number), Arc::clone(&large), Duration::ZERO);
        }
        assert!(cache.find(id(0), 1).is_some(), "all fit");
        cache.insert(id(fitting), Arc::clone(&large), Duration::ZERO);
        assert!(cache.has_version(id(0), 1) && !cache.has_version(id(1), 1), "the second one was used least");
        assert_eq!((cache.entries.len(), cache.by_use.len()), (fitting, fitting));
        assert!(cache.bytes <= BYTES_MAX);
        for number in 0..=fitting {
            cache.remove(id(number));
        }
        assert_eq!(cache.bytes, 0);
    }

    #[test]
    fn an_updated_profile_is_removed_unless_it_was_read_since() {
        let mut cache = ProfileCache::default();
        cache.insert(id(1), profile(1, 0), Duration::from_secs(10));
        cache.remove_read_before(id(1), Duration::from_secs(10));
        assert!(cache.has_version(id(1), 1));
        cache.remove_read_before(id(1), Duration::from_secs(11));
        assert!(!cache.has_version(id(1), 1));
    }
}
