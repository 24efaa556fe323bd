//! How the sender reaches receivers.

use std::path::PathBuf;
use std::sync::Arc;

use crate::clock::{SystemClock, WallClock};
use crate::guard::AllowedNetworks;
use crate::proxy::Proxy;
use crate::resolve::{OwnResolver, Resolve};

/// Everything that can be chosen about requests. [`SenderOptions::new`] gives the defaults of the contract.
pub struct SenderOptions {
    /// Networks that may be dialled although they are not public.
    pub allowed_networks: AllowedNetworks,
    /// Connections that are kept for later requests per receiver, which is a host and a port; several destinations may
    /// share it. One over HTTP/2 counts while it is used, too.
    pub pool_size: usize,
    /// Connections that are kept in all. Each holds a file descriptor.
    pub pool_size_total: usize,
    /// Authorities that are trusted beside the system's, as PEM.
    pub ca_file: Option<PathBuf>,
    /// The way out, where receivers cannot be dialled directly.
    pub proxy: Option<Proxy>,
    pub resolver: Arc<dyn Resolve>,
    pub clock: Arc<dyn WallClock>,
}

#[derive(Debug, thiserror::Error)]
pub enum InvalidOptions {
    #[error(
        "the certificates in {path:?} cannot be used: {reason}; give a PEM file with one certificate or more"
    )]
    Certificates { path: PathBuf, reason: String },
}

impl SenderOptions {
    pub fn new() -> Self {
        Self {
            allowed_networks: AllowedNetworks::none(),
            pool_size: 20,
            pool_size_total: 512,
            ca_file: None,
            proxy: None,
            resolver: Arc::new(OwnResolver::new()),
            clock: Arc::new(SystemClock),
        }
    }
}

impl Default for SenderOptions {
    fn default() -> Self {
        Self::new()
    }
}
