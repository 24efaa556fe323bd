//! From a name to addresses.
//!
//! A name is looked up exactly as it is written: search domains would let whoever controls one of them answer for a
//! receiver. The hosts file comes first, as everywhere on the host.

mod asking;
mod client;
mod hosts;
mod own;
mod qualified;
mod recent;
mod system;

use std::net::IpAddr;

use async_trait::async_trait;
use hickory_resolver::lookup::Lookup;

pub use own::OwnResolver;
pub(crate) use qualified::qualified;
pub use system::SystemResolver;

/// Looks names up. The caller bounds the time, and judges every address of the answer.
#[async_trait]
pub trait Resolve: Send + Sync + 'static {
    /// All addresses of a fully qualified name, given without its final dot: no search domain is ever tried.
    async fn lookup(&self, name: &str) -> Result<Vec<IpAddr>, LookupError>;
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    #[error("{0:?} is not a name that can be looked up")]
    InvalidName(String),
    #[error("{0} does not exist, or has no address")]
    NoAddress(String),
    #[error("{name} could not be looked up: {reason}")]
    Failed { name: String, reason: String },
}

impl LookupError {
    fn failed(name: &str, reason: &str) -> Self {
        Self::Failed { name: name.to_owned(), reason: reason.to_owned() }
    }
}

fn addresses_in(answer: &Lookup) -> impl Iterator<Item = IpAddr> + '_ {
    answer.answers().iter().filter_map(|record| record.data.ip_addr())
}
