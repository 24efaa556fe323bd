//! The interface through which the engine sends requests to receivers.

use std::time::Duration;

use async_trait::async_trait;
use posthaste_domain::{Lease, Outcome, Timestamp};

/// Sends one HTTP request for one lease. Every failure of a receiver is an [`Outcome`].
#[async_trait]
pub trait Sender: Send + Sync + 'static {
    /// Sends the lease's event once and returns the outcome. `now` is the time of the store's clock: it dates the
    /// signature, and a date in `Retry-After` is relative to it. `timeout` covers the whole exchange, from the name
    /// lookup to the end of the response.
    ///
    /// Returns an error if this host lacked a resource before a byte of the request was sent. The receiver had no part
    /// in it, so this is no attempt: the engine releases the lease.
    async fn send(&self, lease: &Lease, now: Timestamp, timeout: Duration) -> Result<Outcome, LocalShortage>;
}

/// A resource of this host that a request needed and that was used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum LocalShortage {
    /// This process may open no more files and sockets.
    #[error(
        "this process may open no more files and sockets; raise its limit of open files (`ulimit -n`, LimitNOFILE=) or \
         lower concurrency"
    )]
    OpenFiles,
    /// All processes of this host together have opened as many files as the host allows.
    #[error("this host may open no more files; raise fs.file-max, or find the program that keeps files open")]
    HostFiles,
    /// Every local port has a connection to the receiver's address, or had one until a moment ago.
    #[error(
        "no local port is free for this receiver; widen net.ipv4.ip_local_port_range, or find out why its connections \
         are not reused"
    )]
    Ports,
    /// The operating system has no memory for another socket.
    #[error("this host has no memory for another socket; free memory, or lower concurrency")]
    Memory,
}

posthaste_domain::named_variants!(LocalShortage {
    OpenFiles => "open_files",
    HostFiles => "host_files",
    Ports => "ports",
    Memory => "memory",
});

impl LocalShortage {
    /// Returns whether only requests to the same receiver lack the resource. Requests to other receivers can be sent.
    pub const fn concerns_one_receiver(self) -> bool {
        matches!(self, Self::Ports)
    }
}
