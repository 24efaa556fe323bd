//! An address on which the process itself listens. An event that was sent there would act with the rights of this host.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// The address to which the process has bound its listener.
#[derive(Debug, Clone, Copy)]
pub(super) struct OwnListener(pub(super) SocketAddr);

impl OwnListener {
    /// Returns whether a connection to this address reaches the listener.
    pub(super) fn is_reached_at(self, address: SocketAddr) -> bool {
        let listens_on = self.0.ip().to_canonical();
        self.0.port() == address.port()
            && if listens_on.is_unspecified() {
                is_of_this_host(address.ip())
            } else {
                // The host dials an unspecified address as loopback.
                listens_on == address.ip() || (listens_on.is_loopback() && address.ip().is_unspecified())
            }
    }
}

/// Returns whether an address belongs to this host: then it is also the source of packets that are sent to it. Sends none.
fn is_of_this_host(address: IpAddr) -> bool {
    let any: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let source = || {
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect((address, 9))?;
        socket.local_addr()
    };
    address.is_loopback() || address.is_unspecified() || source().is_ok_and(|source| source.ip() == address)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_reached(listener: &str, address: &str) -> bool {
        OwnListener(listener.parse().unwrap()).is_reached_at(address.parse().unwrap())
    }

    #[test]
    fn listener_on_one_address_is_reached_there_only() {
        assert!(is_reached("127.0.0.1:8600", "127.0.0.1:8600"));
        assert!(is_reached("127.0.0.1:8600", "0.0.0.0:8600"));
        assert!(is_reached("[::ffff:10.0.0.1]:8600", "10.0.0.1:8600"));
        assert!(!is_reached("127.0.0.1:8600", "127.0.0.1:8601"));
        assert!(!is_reached("127.0.0.1:8600", "127.0.0.2:8600"));
    }

    #[test]
    fn listener_on_all_addresses_is_reached_at_every_address_of_this_host() {
        for address in ["127.0.0.1:8600", "127.9.9.9:8600", "[::1]:8600", "0.0.0.0:8600"] {
            assert!(is_reached("0.0.0.0:8600", address), "{address}");
            assert!(is_reached("[::]:8600", address), "{address}");
        }
        for address in ["127.0.0.1:8601", "192.0.2.7:8600", "[2001:db8::7]:8600"] {
            assert!(!is_reached("0.0.0.0:8600", address), "{address}");
        }
    }
}
