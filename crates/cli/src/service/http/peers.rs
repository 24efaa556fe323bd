//! Counts the connections of each client address, so that one client cannot hold them all.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// The open connections of every client address.
pub(super) struct Peers {
    connections_max: usize,
    connections: Mutex<HashMap<IpAddr, usize>>,
}

/// One counted connection. Dropping it removes it from the count.
pub(super) struct PeerConnection {
    peers: Arc<Peers>,
    address: IpAddr,
}

impl Peers {
    /// Allows each client address this many connections at once.
    pub(super) fn new(connections_max: usize) -> Arc<Self> {
        Arc::new(Self { connections_max, connections: Mutex::default() })
    }

    /// Counts a connection of a client, or returns None if the client has as many as it may.
    pub(super) fn admit(self: &Arc<Self>, address: IpAddr) -> Option<PeerConnection> {
        let address = network_of(address);
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        let open = connections.entry(address).or_default();
        if *open >= self.connections_max {
            return None;
        }
        *open += 1;
        Some(PeerConnection { peers: Arc::clone(self), address })
    }
}

impl Drop for PeerConnection {
    fn drop(&mut self) {
        let mut connections = self.peers.connections.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = connections.get_mut(&self.address) {
            *open -= 1;
            if *open == 0 {
                connections.remove(&self.address);
            }
        }
    }
}

/// Returns the address under which a client is counted. One IPv6 client has all addresses of its /64.
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn one_client_has_at_most_its_share_and_others_have_theirs() {
        let peers = Peers::new(2);
        let held: Vec<_> = (0..2).map(|_| peers.admit(ip("10.0.0.1")).unwrap()).collect();
        assert!(peers.admit(ip("10.0.0.1")).is_none());
        assert!(peers.admit(ip("::ffff:10.0.0.1")).is_none(), "the same client");
        assert!(peers.admit(ip("10.0.0.2")).is_some());
        drop(held);
        assert!(peers.admit(ip("10.0.0.1")).is_some());
    }

    #[test]
    fn addresses_of_one_ipv6_network_are_one_client() {
        let peers = Peers::new(1);
        let _held = peers.admit(ip("2a00:1:2:3::1")).unwrap();
        assert!(peers.admit(ip("2a00:1:2:3:ffff::9")).is_none());
        assert!(peers.admit(ip("2a00:1:2:4::1")).is_some());
    }

    #[test]
    fn clients_without_connections_are_forgotten() {
        let peers = Peers::new(1);
        drop(peers.admit(ip("10.0.0.1")));
        assert!(peers.connections.lock().unwrap().is_empty());
    }
}
