//! Name resolution: from a host name to its addresses.
//!
//! Both resolvers look up a name exactly as written and never try search domains: the owner of a search domain could
//! otherwise answer for a receiver. Both read the hosts file first, as other programs on the host do.

mod cache;
mod dns;
mod dns_client;
mod host_name;
mod hosts;
mod scheduler;
mod system;

use std::net::IpAddr;

use async_trait::async_trait;
use hickory_resolver::lookup::Lookup;
use posthaste_engine::LocalShortage;

pub use dns::DnsResolver;
pub(crate) use host_name::parse_host_name;
pub use system::SystemResolver;

/// Looks up host names. The caller bounds the time and checks every returned address.
#[async_trait]
pub trait Resolver: Send + Sync + 'static {
    /// Returns all addresses of a fully qualified name. The trailing dot is optional; search domains are never tried.
    async fn lookup(&self, name: &str) -> Result<Vec<IpAddr>, LookupError>;
}

/// Why a lookup returned no addresses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// The text is not a host name.
    #[error("{0:?} is not a valid host name")]
    InvalidName(String),
    /// The name does not exist, or has neither IPv4 nor IPv6 addresses.
    #[error("{0} does not exist, or has no address")]
    NoAddress(String),
    /// The resolver failed, so the name may have addresses.
    #[error("{name} could not be looked up: {reason}")]
    Failed { name: String, reason: String },
    /// This host lacked a resource for the lookup.
    #[error(transparent)]
    Shortage(#[from] LocalShortage),
}

impl LookupError {
    fn failed(name: &str, reason: &str) -> Self {
        Self::Failed { name: name.to_owned(), reason: reason.to_owned() }
    }
}

/// Returns the addresses in a DNS response.
fn addresses_in(response: &Lookup) -> impl Iterator<Item = IpAddr> + '_ {
    response.answers().iter().filter_map(|record| record.data.ip_addr())
}
