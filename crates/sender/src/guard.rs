//! The address guard: decides which addresses the sender may dial.
//!
//! Producers choose destinations, and the owner of a name chooses its addresses: either may point into the operator's own
//! network. The guard checks the address that is about to be dialled, after every name lookup and for every new
//! connection, so that neither an unusual spelling of a URL nor a changing DNS answer can bypass it. It refuses all
//! [special-purpose ranges](ranges) that the operator has not [allowed](AllowedNetworks). It permits an IPv6 address only
//! if it also permits every IPv4 address [embedded](embedded) in it.

mod allowed;
mod embedded;
mod ranges;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use ipnet::IpNet;

pub use allowed::{AllowedNetworks, InvalidNetwork};
use embedded::embedded_ipv4;
use ranges::ReservedRange;

/// Permits public addresses, and those in networks that the operator allowed.
#[derive(Debug, Clone, Default)]
pub struct AddressGuard {
    allowed: AllowedNetworks,
}

/// An address that the sender may dial. The sender dials no other type, and only the guard creates this type for
/// receivers. The address of the operator's own proxy comes from the configuration and is not checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PermittedAddress(SocketAddr);

/// The refusal of an address. Its text names the range but never the address: a producer must not learn what a name
/// resolves to in the operator's network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForbiddenAddress(&'static ReservedRange);

impl AddressGuard {
    /// Creates a guard that also permits addresses in these networks.
    pub fn new(allowed: AllowedNetworks) -> Self {
        Self { allowed }
    }

    /// Checks one address. The permitted address has no IPv6 scope and flow label, because the guard checks neither.
    pub fn permit(&self, address: SocketAddr) -> Result<PermittedAddress, ForbiddenAddress> {
        let checked = match address.ip() {
            IpAddr::V6(v6) => self.check_v6(v6)?,
            v4 => self.check(v4)?,
        };
        Ok(PermittedAddress(SocketAddr::new(checked, address.port())))
    }

    /// Checks all addresses of a name. One forbidden address makes the name untrustworthy, so the guard refuses all.
    pub(crate) fn permit_all(
        &self,
        addresses: impl IntoIterator<Item = SocketAddr>,
    ) -> Result<Vec<PermittedAddress>, ForbiddenAddress> {
        addresses.into_iter().map(|address| self.permit(address)).collect()
    }

    /// Checks an IPv6 address and its embedded IPv4 addresses. Returns the address to dial.
    fn check_v6(&self, address: Ipv6Addr) -> Result<IpAddr, ForbiddenAddress> {
        // The host dials an IPv4-mapped address as the embedded IPv4 address, so the guard checks and returns that one.
        if let Some(embedded) = address.to_ipv4_mapped() {
            let embedded = self.check(embedded.into())?;
            if !self.allowed.contains(embedded) {
                self.check(address.into())?;
            }
            return Ok(embedded);
        }
        self.check(address.into())?;
        for embedded in embedded_ipv4(address) {
            self.check(embedded.into())?;
        }
        Ok(address.into())
    }

    fn check(&self, address: IpAddr) -> Result<IpAddr, ForbiddenAddress> {
        match ReservedRange::containing(address) {
            Some(range) if !self.allows(range, address) => Err(ForbiddenAddress(range)),
            _ => Ok(address),
        }
    }

    /// Returns whether the operator allowed an address of a reserved range. A range that is a single host must be listed
    /// by its exact address: an operator who allows a network does not mean the metadata service in it, which hands out
    /// credentials.
    fn allows(&self, range: &ReservedRange, address: IpAddr) -> bool {
        if range.is_host() { self.allowed.lists_address(address) } else { self.allowed.contains(address) }
    }
}

impl PermittedAddress {
    pub(crate) fn address(self) -> SocketAddr {
        self.0
    }

    /// Wraps the address of the operator's own proxy, which no producer can influence.
    pub(crate) fn from_configuration(address: SocketAddr) -> Self {
        Self(address)
    }
}

impl ForbiddenAddress {
    fn network(self) -> IpNet {
        self.0.network
    }

    /// The purpose of the network, such as `private network`.
    fn kind(self) -> &'static str {
        self.0.kind
    }
}

impl fmt::Display for ForbiddenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind();
        if self.0.is_host() {
            return write!(
                f,
                "the destination's address is a reserved host ({kind}); \
                 allow_private_networks can allow it only by listing that exact address"
            );
        }
        let network = self.network();
        write!(f, "the destination's address lies in {network} ({kind}); allow_private_networks can allow it")
    }
}

impl std::error::Error for ForbiddenAddress {}
