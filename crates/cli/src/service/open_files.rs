//! The limit of open files, and the shares of it that connections get.
//!
//! Connections to receivers and connections of clients have separate shares, so that neither can take the descriptors
//! of the other, of the store or of the log.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files for everything but connections: the store, name servers, the log, the runtime. A process with a low limit
/// reserves half of it.
const OTHER_FILES: usize = 128;

/// The number of files that this process may have open.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenFilesLimit(pub(crate) usize);

/// Raises the soft limit of open files to the hard limit. Many systems have a soft limit of 1024 for programs that
/// cannot handle more.
pub(crate) fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    // A system that refuses leaves the limit as it is. `OpenFilesLimit::current` then returns the lower one.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

impl OpenFilesLimit {
    /// Returns the limit of this process.
    pub(crate) fn current() -> Self {
        let limit = getrlimit(Resource::Nofile).current;
        Self(limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(usize::MAX))
    }

    /// Returns how many connections of clients, of at most `wanted`, the server may have open.
    pub(crate) fn for_clients(self, wanted: usize) -> usize {
        wanted.min(self.0 / 4).max(1)
    }

    /// Returns how many sockets the sender may have open beside a server with `clients` connections.
    pub(crate) fn for_sender(self, clients: usize) -> usize {
        let others = OTHER_FILES.min(self.0 / 2);
        self.0.saturating_sub(others).saturating_sub(clients).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_fit_into_the_limit_and_are_never_empty() {
        for limit in [0, 1, 2, 3, 16, 64, 256, 1_024, 4_096, 65_536, usize::MAX] {
            let clients = OpenFilesLimit(limit).for_clients(2_048);
            let sender = OpenFilesLimit(limit).for_sender(clients);
            assert!(clients > 0 && sender > 0, "{limit}");
            assert!(limit < 4 || clients + sender < limit, "{clients} and {sender} of {limit}");
        }
    }

    #[test]
    fn default_concurrency_needs_no_more_than_1024_files() {
        let limit = OpenFilesLimit(1_024);
        assert!(limit.for_sender(limit.for_clients(2_048)) >= 512);
    }

    #[test]
    fn raised_limit_is_the_hard_limit() {
        raise_limit();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
    }
}
