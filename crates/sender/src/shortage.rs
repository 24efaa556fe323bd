//! Recognises errors that a lack of this host's own resources caused.
//!
//! Such an error says nothing about the receiver, so it must not become the outcome of an attempt.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use posthaste_engine::LocalShortage;
use rustix::io::Errno;

use crate::failure::Failure;

/// Why no connection could be opened, or no request sent.
#[derive(Debug)]
pub(crate) enum AttemptError {
    /// The receiver, or the network between, failed.
    Failed(Failure),
    /// This host lacked a resource.
    Shortage(LocalShortage),
}

impl From<Failure> for AttemptError {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<LocalShortage> for AttemptError {
    fn from(shortage: LocalShortage) -> Self {
        Self::Shortage(shortage)
    }
}

/// Returns the shortage behind an error of opening a socket or a file.
pub(crate) fn shortage_of(error: &io::Error) -> Option<LocalShortage> {
    match Errno::from_io_error(error)? {
        Errno::MFILE => Some(LocalShortage::OpenFiles),
        Errno::NFILE => Some(LocalShortage::HostFiles),
        Errno::NOBUFS | Errno::NOMEM => Some(LocalShortage::Memory),
        _ => None,
    }
}

/// Returns the shortage behind an error of connecting to this address.
pub(crate) fn shortage_of_connect(error: &io::Error, address: SocketAddr) -> Option<LocalShortage> {
    match Errno::from_io_error(error)? {
        // The operating system reports this for two reasons: no local port is free, or the host has no address from
        // which to reach this one, as without IPv6. The second concerns the receiver's address.
        Errno::ADDRNOTAVAIL => has_source_address(address).then_some(LocalShortage::Ports),
        _ => shortage_of(error),
    }
}

/// Returns the shortage that prevents this process from opening a socket now. For errors whose cause a library hides.
pub(crate) fn current_shortage() -> Option<LocalShortage> {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).err().as_ref().and_then(shortage_of)
}

/// Returns whether this host has an address from which it can reach `address`. Connecting a UDP socket selects one and
/// sends nothing.
fn has_source_address(address: SocketAddr) -> bool {
    let socket = match address {
        SocketAddr::V4(_) => UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)),
        SocketAddr::V6(_) => UdpSocket::bind((Ipv6Addr::UNSPECIFIED, 0)),
    };
    socket.and_then(|socket| socket.connect(address)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shortage(errno: Errno, address: &str) -> Option<LocalShortage> {
        shortage_of_connect(&io::Error::from(errno), address.parse().unwrap())
    }

    #[test]
    fn lack_of_descriptors_ports_or_memory_is_a_shortage() {
        let expected = [
            (Errno::MFILE, LocalShortage::OpenFiles),
            (Errno::NFILE, LocalShortage::HostFiles),
            (Errno::ADDRNOTAVAIL, LocalShortage::Ports),
            (Errno::NOBUFS, LocalShortage::Memory),
            (Errno::NOMEM, LocalShortage::Memory),
        ];
        for (errno, expected) in expected {
            assert_eq!(shortage(errno, "127.0.0.1:9"), Some(expected), "{errno}");
        }
    }

    #[test]
    fn refusal_or_lack_of_a_route_is_not_a_shortage() {
        for errno in
            [Errno::CONNREFUSED, Errno::NETUNREACH, Errno::HOSTUNREACH, Errno::TIMEDOUT, Errno::CONNRESET]
        {
            assert_eq!(shortage(errno, "127.0.0.1:9"), None, "{errno}");
        }
        // No host has a route to an address of the reserved prefix 0100::/64 that discards packets, or it has a source
        // address for it; what matters is that the answer follows the route and not the error.
        let discarded = "[100::1]:9";
        let reachable = has_source_address(discarded.parse().unwrap());
        assert_eq!(shortage(Errno::ADDRNOTAVAIL, discarded).is_some(), reachable);
    }

    #[test]
    fn a_process_that_can_open_sockets_has_no_shortage() {
        assert_eq!(current_shortage(), None);
    }
}
