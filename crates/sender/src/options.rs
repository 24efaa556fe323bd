//! Configuration of the sender.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use crate::guard::{AllowedNetworks, DeniedNetworks};
use crate::proxy::Proxy;
use crate::resolve::{DnsResolver, Resolver};

/// Options of an [`HttpSender`](crate::HttpSender). [`SenderOptions::new`] returns the documented defaults.
#[derive(Clone)]
pub struct SenderOptions {
    /// Non-public networks that the sender may dial.
    pub allowed_networks: AllowedNetworks,
    /// Networks that the sender never dials, also if they are public or allowed.
    pub denied_networks: DeniedNetworks,
    /// Addresses on which the process listens, which the sender never dials.
    pub own_listeners: Vec<SocketAddr>,
    /// Sends to `https` destinations only.
    pub https_only: bool,
    /// Number of connections per receiver that stay open for a minute without a request. A receiver is a host and port
    /// that several destinations may share. If it had more requests in flight at once, the other connections stay open for
    /// a few seconds. Zero pools no connection.
    pub pool_size: usize,
    /// Upper bound of pooled connections to all receivers: idle HTTP/1.1 connections, and HTTP/2 connections whether idle
    /// or in use. Each holds a file descriptor.
    pub pool_size_total: usize,
    /// Upper bound of open sockets, in use and pooled. It leaves file descriptors to the rest of the process. `None`
    /// leaves the limit to the operating system.
    pub sockets_max: Option<usize>,
    /// PEM file of certificate authorities that are trusted in addition to the system's.
    pub ca_file: Option<PathBuf>,
    /// Egress proxy for all connections to receivers. Without one, the sender dials receivers directly.
    pub proxy: Option<Proxy>,
    /// Names under which the id, the timestamp and the signature of a request are sent a second time.
    pub compat_headers: CompatHeaders,
    /// Resolver for the names of receivers and of the proxy.
    pub resolver: Arc<dyn Resolver>,
}

/// A second set of names for the three signature headers, for receivers that were written for another product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CompatHeaders {
    /// Only `webhook-id`, `webhook-timestamp` and `webhook-signature`.
    #[default]
    None,
    /// Also `svix-id`, `svix-timestamp` and `svix-signature`, with the same values.
    Svix,
}

/// Why a sender cannot be built from its options.
#[derive(Debug, thiserror::Error)]
pub enum InvalidOptions {
    /// The CA file cannot be read or parsed, or contains no certificate.
    #[error(
        "the certificates in {path:?} cannot be used: {reason}; give a PEM file with one certificate or more"
    )]
    Certificates { path: PathBuf, reason: String },
}

impl SenderOptions {
    /// Returns the number of connections that a worker keeps which has so many requests in flight: twice as many, because
    /// the requests of a moment go to other receivers than those of the moment before.
    pub const fn pooled_connections(requests: usize) -> usize {
        requests.saturating_mul(2)
    }

    /// The defaults: public addresses only, no proxy, 20 connections kept per receiver and 1024 pooled in total.
    pub fn new() -> Self {
        Self {
            allowed_networks: AllowedNetworks::none(),
            denied_networks: DeniedNetworks::default(),
            own_listeners: Vec::new(),
            https_only: false,
            pool_size: 20,
            pool_size_total: Self::pooled_connections(512),
            sockets_max: None,
            ca_file: None,
            proxy: None,
            compat_headers: CompatHeaders::None,
            resolver: Arc::new(DnsResolver::new()),
        }
    }
}

impl Default for SenderOptions {
    fn default() -> Self {
        Self::new()
    }
}
