//! The threads of the product, by what they do.

use std::time::Duration;

/// Threads of the product that do the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ThreadGroup {
    /// The writer thread of SQLite: claims, settles, notices and their commits.
    Write,
    /// The threads of SQLite that read.
    Read,
    /// The thread of SQLite that copies the log into the database.
    Checkpoint,
    /// All other threads: claims and settles before they reach the store, requests, signatures, logs and the API.
    Engine,
}

impl ThreadGroup {
    pub(crate) const ALL: [Self; 4] = [Self::Write, Self::Read, Self::Checkpoint, Self::Engine];

    pub(crate) const fn key(self) -> &'static str {
        match self {
            Self::Write => "stage_write",
            Self::Read => "stage_read",
            Self::Checkpoint => "stage_checkpoint",
            Self::Engine => "stage_engine",
        }
    }

    pub(crate) const fn description(self) -> &'static str {
        match self {
            Self::Write => "SQLite's writer thread: grant, settle, notices, commit",
            Self::Read => "SQLite's reader threads",
            Self::Checkpoint => "SQLite's checkpoint thread",
            Self::Engine => "the product's other threads: send, decide, count, log",
        }
    }

    /// Returns the group of a thread. The system keeps the first 15 bytes of a thread's name.
    fn of(name: &str) -> Self {
        match name {
            "posthaste-write" => Self::Write,
            "posthaste-read" => Self::Read,
            "posthaste-check" => Self::Checkpoint,
            _ => Self::Engine,
        }
    }
}

/// Adds up the times of threads by group. Leaves out groups without a thread.
pub(super) fn group(threads: &[(String, Duration)]) -> Vec<(ThreadGroup, Duration)> {
    let times_of = |group| threads.iter().filter(move |(name, _)| ThreadGroup::of(name) == group);
    let groups = ThreadGroup::ALL.into_iter().filter(|group| times_of(*group).next().is_some());
    groups.map(|group| (group, times_of(group).map(|(_, time)| *time).sum())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_added_by_group() {
        let threads = [("posthaste-write", 3), ("tokio-rt-worker", 1), ("posthaste", 1)];
        let threads = threads.map(|(name, seconds)| (name.to_owned(), Duration::from_secs(seconds)));
        let groups = group(&threads);
        let seconds = Duration::from_secs;
        assert_eq!(groups, [(ThreadGroup::Write, seconds(3)), (ThreadGroup::Engine, seconds(2))]);
    }
}
