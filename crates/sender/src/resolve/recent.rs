//! What is remembered of names, bounded in names, in addresses and in time: strangers choose all three.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::time::Duration;

use tokio::time::Instant;

/// Addresses of an answer that is kept. One with more is used and not kept: a part of it would hide the rest from the
/// guard, which judges all.
const ADDRESSES_MAX: usize = 64;

/// The values of those keys that were asked for last.
pub(super) struct Recent<K, V> {
    entries: HashMap<K, Entry<V>>,
    len_max: usize,
    uses: u64,
}

struct Entry<V> {
    value: V,
    /// When it was last asked for, counted in uses.
    used: u64,
}

impl<K: Hash + Eq + Clone, V> Recent<K, V> {
    pub(super) fn new(len_max: usize) -> Self {
        Self { entries: HashMap::new(), len_max, uses: 0 }
    }

    pub(super) fn get(&mut self, key: &K) -> Option<&V> {
        self.uses += 1;
        let entry = self.entries.get_mut(key)?;
        entry.used = self.uses;
        Some(&entry.value)
    }

    /// Whatever was not asked for the longest gives way: names that are used stay, however many others come by.
    pub(super) fn put(&mut self, key: K, value: V) {
        if self.entries.len() >= self.len_max && !self.entries.contains_key(&key) {
            // A search through a few thousand entries, beside a lookup that took longer.
            let stalest = self.entries.iter().min_by_key(|(_, entry)| entry.used).map(|(key, _)| key.clone());
            stalest.and_then(|key| self.entries.remove(&key));
        }
        self.uses += 1;
        self.entries.insert(key, Entry { value, used: self.uses });
    }
}

/// Addresses, perhaps none, and until when they are believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    addresses: Box<[IpAddr]>,
    until: Instant,
}

impl Answer {
    /// None if it is not to be kept.
    pub(super) fn worth_keeping(addresses: &[IpAddr], ttl: Duration, now: Instant) -> Option<Self> {
        let fits = addresses.len() <= ADDRESSES_MAX;
        (fits && !ttl.is_zero()).then(|| Self { addresses: addresses.into(), until: now + ttl })
    }

    pub(super) fn addresses(&self, now: Instant) -> Option<Vec<IpAddr>> {
        (now < self.until).then(|| self.addresses.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deadline::now;

    const TTL: Duration = Duration::from_secs(60);

    fn addresses(count: usize) -> Vec<IpAddr> {
        vec![IpAddr::from([192, 0, 2, 1]); count]
    }

    #[test]
    fn no_more_is_kept_than_so_many_keys() {
        let mut recent = Recent::new(3);
        for key in 0..1_000 {
            recent.put(key, key);
            recent.put(key, key);
            assert!(recent.entries.len() <= 3, "{} are kept", recent.entries.len());
        }
        let left = [996, 997, 998, 999].map(|key| recent.get(&key).copied());
        assert_eq!(left, [None, Some(997), Some(998), Some(999)]);
    }

    #[test]
    fn what_is_asked_for_stays_however_many_others_come_by() {
        let mut recent = Recent::new(3);
        recent.put("used", 0);
        recent.put("replaced", 0);
        for other in ["a", "b", "c", "d", "e"] {
            assert_eq!(recent.get(&"used"), Some(&0));
            recent.put("replaced", 1);
            recent.put(other, 2);
        }
        let left = ["used", "replaced", "d", "e"].map(|key| recent.get(&key).copied());
        assert_eq!(left, [Some(0), Some(1), None, Some(2)]);
    }

    #[test]
    fn an_answer_is_believed_until_its_time_is_over() {
        let now = now();
        let answer = Answer::worth_keeping(&addresses(2), TTL, now).unwrap();
        assert_eq!(answer.addresses(now), Some(addresses(2)));
        assert_eq!(answer.addresses(now + TTL - Duration::from_nanos(1)), Some(addresses(2)));
        assert_eq!(answer.addresses(now + TTL), None);
        assert_eq!(Answer::worth_keeping(&addresses(2), Duration::ZERO, now), None);
    }

    #[test]
    fn an_answer_is_kept_whole_or_not_at_all() {
        let kept = |count| Answer::worth_keeping(&addresses(count), TTL, now());
        for count in [0, 1, ADDRESSES_MAX] {
            assert_eq!(kept(count).unwrap().addresses.len(), count);
        }
        assert_eq!(kept(ADDRESSES_MAX + 1), None);
    }
}
