//! Dials permitted addresses until one accepts a TCP connection.
//!
//! Addresses of IPv4 and IPv6 alternate, so that an attempt reaches a receiver with a dead IPv6 route over IPv4.

use std::io;
use std::time::Duration;

use posthaste_engine::LocalShortage;
use tokio::net::TcpStream;

use crate::guard::PermittedAddress;
use crate::race::first_success;
use crate::shortage::shortage_of_connect;
use crate::sockets::{Socket, SocketBudget};

/// Delay before the next address is dialled in parallel.
const NEXT_ADDRESS_DELAY: Duration = Duration::from_millis(250);
/// Upper bound of addresses dialled per name. A name may have hundreds, and its owner must not be able to make the sender
/// scan a network.
pub(crate) const ADDRESSES_MAX: usize = 6;

/// Why no address could be dialled.
#[derive(Debug)]
pub(crate) enum DialError {
    Failed(io::Error),
    /// This host lacked a resource.
    Shortage(LocalShortage),
}

/// Dials the addresses in order and returns the first open socket. A local shortage ends the attempts at all addresses:
/// another error could otherwise hide that an address was not tried.
pub(crate) async fn dial(
    addresses: &[PermittedAddress],
    sockets: &SocketBudget,
) -> Result<Socket, DialError> {
    let connect = |address| connect(address, sockets);
    let is_final = |error: &DialError| matches!(error, DialError::Shortage(_));
    let dialled = first_success(addresses.iter().copied(), NEXT_ADDRESS_DELAY, connect, is_final).await;
    dialled.map_err(|failure| {
        let no_address = || io::Error::new(io::ErrorKind::AddrNotAvailable, "there is no address to dial");
        failure.unwrap_or_else(|| DialError::Failed(no_address()))
    })
}

/// Returns the first `max` addresses, alternating between IPv4 and IPv6 and starting with the family of the first one.
///
/// Copies them, so that an attempt does not keep the memory of addresses that it will not dial.
pub(crate) fn interleave_families(addresses: &[PermittedAddress], max: usize) -> Vec<PermittedAddress> {
    let is_first =
        |address: &&PermittedAddress| address.address().is_ipv4() == addresses[0].address().is_ipv4();
    let (mut first, mut second) =
        (addresses.iter().filter(is_first), addresses.iter().filter(|address| !is_first(address)));
    let mut ordered = Vec::with_capacity(max);
    while ordered.len() < max {
        let pair = [first.next(), second.next()];
        if pair == [None, None] {
            break;
        }
        ordered.extend(pair.into_iter().flatten().take(max - ordered.len()));
    }
    ordered
}

async fn connect(address: PermittedAddress, sockets: &SocketBudget) -> Result<Socket, DialError> {
    let permit = sockets.reserve(1).map_err(DialError::Shortage)?;
    let connected = TcpStream::connect(address.address()).await;
    let stream = connected.map_err(|error| match shortage_of_connect(&error, address.address()) {
        Some(shortage) => DialError::Shortage(shortage),
        None => DialError::Failed(error),
    })?;
    // A request is written in one piece; Nagle's algorithm would only delay it.
    stream.set_nodelay(true).map_err(DialError::Failed)?;
    Ok(Socket::new(stream, permit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    fn budget(max: Option<usize>) -> SocketBudget {
        SocketBudget::new(max, crate::pool::Pool::new(0, 0))
    }

    fn permitted(addresses: &[&str]) -> Vec<PermittedAddress> {
        let parsed = addresses.iter().map(|address| address.parse::<SocketAddr>().unwrap());
        parsed.map(PermittedAddress::from_configuration).collect()
    }

    #[test]
    fn address_families_alternate() {
        let all = permitted(&["[::1]:1", "[::1]:2", "[::1]:3", "127.0.0.1:4"]);
        assert_eq!(
            interleave_families(&all, 6),
            permitted(&["[::1]:1", "127.0.0.1:4", "[::1]:2", "[::1]:3"])
        );
        assert_eq!(interleave_families(&all, 3), permitted(&["[::1]:1", "127.0.0.1:4", "[::1]:2"]));
        assert_eq!(interleave_families(&[], 6), []);
    }

    #[test]
    fn addresses_beyond_the_limit_are_not_kept() {
        let mut all = permitted(&["192.0.2.1:443"; 4_000]);
        all.extend(permitted(&["[2001:db8::1]:443"; 4_000]));
        for max in 1..=ADDRESSES_MAX {
            let kept = interleave_families(&all, max);
            assert_eq!((kept.len(), kept.capacity()), (max, max));
            assert_eq!(kept.iter().filter(|address| address.address().is_ipv6()).count(), max / 2);
        }
    }

    #[tokio::test]
    async fn dial_tries_the_next_address_after_a_refusal() {
        let refusing = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let listening = listener.local_addr().unwrap();
        let addresses = [refusing, listening].map(PermittedAddress::from_configuration);
        assert_eq!(dial(&addresses, &budget(None)).await.unwrap().peer_addr().unwrap(), listening);
    }

    #[tokio::test]
    async fn dialling_without_addresses_fails_at_once() {
        let error = dial(&[], &budget(None)).await.unwrap_err();
        assert!(matches!(error, DialError::Failed(error) if error.kind() == io::ErrorKind::AddrNotAvailable));
    }

    #[tokio::test]
    async fn no_address_is_dialled_without_a_socket_in_the_budget() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addresses = [listener.local_addr().unwrap(); 2].map(PermittedAddress::from_configuration);
        let budget = budget(Some(1));
        let socket = dial(&addresses, &budget).await.unwrap();
        let error = dial(&addresses, &budget).await.unwrap_err();
        assert!(matches!(error, DialError::Shortage(LocalShortage::OpenFiles)), "{error:?}");
        drop(socket);
        dial(&addresses, &budget).await.unwrap();
    }
}
