//! The hosts that a worker knows, by name and by number.
//!
//! Each delivery looks its host up several times, and names of hosts have long common beginnings. So deliveries refer to a
//! host by a number, which stays the same while the host is remembered.

use std::collections::BTreeMap;
use std::ops::Index;

use super::host::HostEntry;

/// The number of a host. A host that is met later has a higher one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HostNumber(u64);

#[derive(Default)]
pub(super) struct Hosts {
    numbers: BTreeMap<Box<str>, HostNumber>,
    entries: BTreeMap<HostNumber, HostEntry>,
    next: u64,
}

impl Hosts {
    pub(super) fn number(&self, name: &str) -> Option<HostNumber> {
        self.numbers.get(name).copied()
    }

    pub(super) fn by_name(&self, name: &str) -> Option<&HostEntry> {
        self.get(self.number(name)?)
    }

    pub(super) fn get(&self, number: HostNumber) -> Option<&HostEntry> {
        self.entries.get(&number)
    }

    pub(super) fn get_mut(&mut self, number: HostNumber) -> Option<&mut HostEntry> {
        self.entries.get_mut(&number)
    }

    /// Returns the number of the host with this name. If it is unknown, adds `new`.
    pub(super) fn get_or_insert(&mut self, name: &str, new: impl FnOnce() -> HostEntry) -> HostNumber {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = HostNumber(self.next);
        self.next += 1;
        self.numbers.insert(name.into(), number);
        self.entries.insert(number, new());
        number
    }

    /// Forgets all other hosts than these.
    pub(super) fn retain(&mut self, is_kept: impl Fn(HostNumber) -> bool) {
        self.numbers.retain(|_, number| is_kept(*number));
        self.entries.retain(|number, _| is_kept(*number));
    }
}

impl Index<HostNumber> for Hosts {
    type Output = HostEntry;

    fn index(&self, number: HostNumber) -> &HostEntry {
        &self.entries[&number]
    }
}

#[cfg(test)]
impl Hosts {
    pub(super) fn entries(&self) -> impl ExactSizeIterator<Item = &HostEntry> {
        self.entries.values()
    }

    /// Returns the number of a host that no test looks up.
    pub(super) fn any() -> HostNumber {
        HostNumber(0)
    }
}
