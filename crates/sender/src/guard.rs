//! Which addresses may be dialled.
//!
//! A destination is chosen by a stranger, and so is what its name resolves to: either may lead into the operator's
//! own network. The guard judges the very address that is about to be dialled, after every name lookup and for
//! every new connection, so that no spelling of a URL and no answer that changes can get around it. It refuses all
//! [special-purpose ranges](ranges) that the operator has not [allowed](AllowedNetworks), and an IPv6 address is
//! only as good as the IPv4 addresses [carried](carried) inside it.

mod allowed;
mod carried;
mod ranges;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use ipnet::IpNet;

pub use allowed::{AllowedNetworks, InvalidNetwork};
use carried::carried;
use ranges::Range;

#[derive(Debug, Clone, Default)]
pub struct Guard {
    allowed: AllowedNetworks,
}

/// An address that may be dialled; no other can be. For a receiver only the guard makes one. The operator's own proxy is
/// the one thing that is dialled unjudged, as it is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Permitted(SocketAddr);

/// Names the range and never the address: whoever sends an event must not learn what a name resolves to in here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forbidden(&'static Range);

impl Guard {
    pub fn new(allowed: AllowedNetworks) -> Self {
        Self { allowed }
    }

    /// Scope and flow are dropped: what was judged is what is dialled.
    pub fn permit(&self, address: SocketAddr) -> Result<Permitted, Forbidden> {
        let judged = match address.ip() {
            IpAddr::V6(v6) => self.judge_v6(v6)?,
            v4 => self.judge(v4)?,
        };
        Ok(Permitted(SocketAddr::new(judged, address.port())))
    }

    /// All or nothing: a name of which one address is forbidden is not to be trusted with the others.
    pub fn permit_all(
        &self,
        addresses: impl IntoIterator<Item = SocketAddr>,
    ) -> Result<Vec<Permitted>, Forbidden> {
        addresses.into_iter().map(|address| self.permit(address)).collect()
    }

    fn judge_v6(&self, address: Ipv6Addr) -> Result<IpAddr, Forbidden> {
        // The host dials an IPv4-mapped address as the IPv4 address inside, so that one is judged and dialled.
        if let Some(inside) = address.to_ipv4_mapped() {
            let inside = self.judge(inside.into())?;
            if !self.allowed.contains(inside) {
                self.judge(address.into())?;
            }
            return Ok(inside);
        }
        self.judge(address.into())?;
        for inside in carried(address) {
            self.judge(inside.into())?;
        }
        Ok(address.into())
    }

    fn judge(&self, address: IpAddr) -> Result<IpAddr, Forbidden> {
        match Range::of(address) {
            Some(range) if !self.opens(range, address) => Err(Forbidden(range)),
            _ => Ok(address),
        }
    }

    /// What is forbidden as a single host is opened by its own address alone: nobody who allows a network means
    /// the credentials that a metadata service hands out.
    fn opens(&self, range: &Range, address: IpAddr) -> bool {
        if range.is_host() { self.allowed.names(address) } else { self.allowed.contains(address) }
    }
}

impl Permitted {
    pub fn address(self) -> SocketAddr {
        self.0
    }

    /// For the operator's own proxy: no stranger had a say in it.
    pub(crate) fn by_configuration(address: SocketAddr) -> Self {
        Self(address)
    }
}

impl Forbidden {
    pub fn network(&self) -> IpNet {
        self.0.network
    }

    /// What the network is for, such as `private network`.
    pub fn kind(&self) -> &'static str {
        self.0.kind
    }
}

impl fmt::Display for Forbidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind();
        if self.0.is_host() {
            return write!(
                f,
                "the destination's address is a reserved host ({kind}); \
                 allow_private_networks can allow it only by naming that very address"
            );
        }
        let network = self.network();
        write!(f, "the destination's address lies in {network} ({kind}); allow_private_networks can allow it")
    }
}

impl std::error::Error for Forbidden {}
