//! Cached lookup results, bounded in addresses per name and in time. The resolvers keep them in LRU caches that bound the
//! number of names. A zone chooses its names, its addresses and its TTLs, so none of the three may be unbounded.

use std::net::IpAddr;
use std::time::Duration;

use tokio::time::Instant;

/// Upper bound of addresses in a cached answer. A longer answer is used but not cached. Caching a part of it would hide
/// the other addresses from the guard, which must check all of them.
const ADDRESSES_MAX: usize = 64;

/// The addresses of a name, perhaps none, until they expire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CachedAddresses {
    addresses: Box<[IpAddr]>,
    expires_at: Instant,
}

impl CachedAddresses {
    /// Creates a cache entry. Returns `None` if the answer must not be cached: its TTL is zero, or it has too many addresses.
    pub(super) fn new(addresses: &[IpAddr], ttl: Duration, now: Instant) -> Option<Self> {
        let fits = addresses.len() <= ADDRESSES_MAX;
        (fits && !ttl.is_zero()).then(|| Self { addresses: addresses.into(), expires_at: now + ttl })
    }

    /// Returns the addresses, or `None` if they have expired.
    pub(super) fn get(&self, now: Instant) -> Option<Vec<IpAddr>> {
        (now < self.expires_at).then(|| self.addresses.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use lru::LruCache;

    use super::*;
    use crate::deadline::now;

    const TTL: Duration = Duration::from_secs(60);
    const ENTRIES_MAX: NonZeroUsize = NonZeroUsize::new(3).unwrap();

    fn addresses(count: usize) -> Vec<IpAddr> {
        vec![IpAddr::from([192, 0, 2, 1]); count]
    }

    #[test]
    fn cache_never_exceeds_its_number_of_entries() {
        let mut cache = LruCache::new(ENTRIES_MAX);
        for key in 0..1_000 {
            cache.put(key, key);
            cache.put(key, key);
            assert!(cache.len() <= 3, "{} are kept", cache.len());
        }
        let left = [996, 997, 998, 999].map(|key| cache.get(&key).copied());
        assert_eq!(left, [None, Some(997), Some(998), Some(999)]);
    }

    #[test]
    fn recently_used_entries_survive_any_number_of_new_ones() {
        let mut cache = LruCache::new(ENTRIES_MAX);
        cache.put("used", 0);
        cache.put("replaced", 0);
        for other in ["a", "b", "c", "d", "e"] {
            assert_eq!(cache.get(&"used"), Some(&0));
            cache.put("replaced", 1);
            cache.put(other, 2);
        }
        let left = ["used", "replaced", "d", "e"].map(|key| cache.get(&key).copied());
        assert_eq!(left, [Some(0), Some(1), None, Some(2)]);
    }

    #[test]
    fn cached_addresses_expire_after_their_ttl() {
        let now = now();
        let cached = CachedAddresses::new(&addresses(2), TTL, now).unwrap();
        assert_eq!(cached.get(now), Some(addresses(2)));
        assert_eq!(cached.get(now + TTL - Duration::from_nanos(1)), Some(addresses(2)));
        assert_eq!(cached.get(now + TTL), None);
        assert_eq!(CachedAddresses::new(&addresses(2), Duration::ZERO, now), None);
    }

    #[test]
    fn an_answer_is_cached_whole_or_not_at_all() {
        let cached = |count| CachedAddresses::new(&addresses(count), TTL, now());
        for count in [0, 1, ADDRESSES_MAX] {
            assert_eq!(cached(count).unwrap().addresses.len(), count);
        }
        assert_eq!(cached(ADDRESSES_MAX + 1), None);
    }
}
