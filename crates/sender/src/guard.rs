//! The address guard: decides which addresses the sender may dial.
//!
//! Producers choose destinations, and the owner of a name chooses its addresses: either may point into the operator's own
//! network. The guard checks the address that is about to be dialled, after every name lookup and for every new
//! connection, so that neither an unusual spelling of a URL nor a changing DNS answer can bypass it. It refuses all
//! [special-purpose ranges](ranges) that the operator has not [allowed](AllowedNetworks), every network that the operator
//! has [denied](DeniedNetworks), and the process's own [listeners](own_listener). It permits an IPv6 address only if it also
//! permits every IPv4 address [embedded](embedded) in it.
//!
//! The API asks the guard too, so that a producer learns at once that a [destination](destination) can never be sent to.

mod allowed;
mod denied;
mod destination;
mod embedded;
mod own_listener;
mod ranges;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

pub use allowed::{AllowedNetworks, InvalidNetwork};
pub use denied::DeniedNetworks;
pub use destination::ForbiddenDestination;
use embedded::embedded_ipv4;
use own_listener::OwnListener;
use ranges::ReservedRange;

use crate::options::SenderOptions;

/// Permits public addresses and those in networks that the operator allowed, except for denied ones and the process's own
/// listeners.
#[derive(Debug, Clone, Default)]
pub struct AddressGuard {
    allowed: AllowedNetworks,
    denied: DeniedNetworks,
    own_listeners: Vec<OwnListener>,
    https_only: bool,
}

/// An address that the sender may dial. The sender dials no other type, and only the guard creates this type for
/// receivers. The address of the operator's own proxy comes from the configuration and is not checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PermittedAddress(SocketAddr);

/// The refusal of an address. Its text names the range but never the address: a producer must not learn what a name
/// resolves to in the operator's network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForbiddenAddress(Reason);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    Reserved(&'static ReservedRange),
    Denied,
    OwnListener,
}

impl AddressGuard {
    /// Creates the guard of a sender with these options.
    pub fn new(options: &SenderOptions) -> Self {
        Self {
            allowed: options.allowed_networks.clone(),
            denied: options.denied_networks.clone(),
            own_listeners: options.own_listeners.iter().copied().map(OwnListener).collect(),
            https_only: options.https_only,
        }
    }

    /// Checks one address. The permitted address has no IPv6 scope and flow label, because the guard checks neither.
    pub fn permit(&self, address: SocketAddr) -> Result<PermittedAddress, ForbiddenAddress> {
        let checked = match address.ip() {
            IpAddr::V6(v6) => self.check_v6(v6)?,
            v4 => self.check(v4)?,
        };
        let checked = SocketAddr::new(checked, address.port());
        if self.own_listeners.iter().any(|listener| listener.is_reached_at(checked)) {
            return Err(ForbiddenAddress(Reason::OwnListener));
        }
        Ok(PermittedAddress(checked))
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
        if self.denied.contains(address) {
            return Err(ForbiddenAddress(Reason::Denied));
        }
        match ReservedRange::containing(address) {
            Some(range) if !self.allows(range, address) => Err(ForbiddenAddress(Reason::Reserved(range))),
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

impl fmt::Display for ForbiddenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Reason::Reserved(range) if range.is_host() => write!(
                f,
                "the destination's address is a reserved host ({}); allow_private_networks can allow it only by listing \
                 that exact address",
                range.kind
            ),
            Reason::Reserved(range) => write!(
                f,
                "the destination's address lies in {} ({}); allow_private_networks can allow it",
                range.network, range.kind
            ),
            Reason::Denied => f.write_str("the destination's address lies in a network of deny_networks"),
            Reason::OwnListener => f.write_str(
                "the destination's address is the one on which Posthaste itself listens, which is never sent to",
            ),
        }
    }
}

impl std::error::Error for ForbiddenAddress {}
