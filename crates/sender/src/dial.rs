//! Dials permitted addresses until one accepts a TCP connection.
//!
//! Addresses of IPv4 and IPv6 alternate, so that an attempt reaches a receiver with a dead IPv6 route over IPv4.

use std::io;
use std::time::Duration;

use tokio::net::TcpStream;

use crate::guard::PermittedAddress;
use crate::race::first_success;

/// Delay before the next address is dialled in parallel.
const NEXT_ADDRESS_DELAY: Duration = Duration::from_millis(250);
/// Upper bound of addresses dialled per name. A name may have hundreds, and its owner must not be able to make the sender
/// scan a network.
pub(crate) const ADDRESSES_MAX: usize = 6;

/// Dials the addresses in order and returns the first open socket.
pub(crate) async fn dial(addresses: &[PermittedAddress]) -> io::Result<TcpStream> {
    let dialled = first_success(addresses.iter().copied(), NEXT_ADDRESS_DELAY, connect, |_| false).await;
    dialled.map_err(|failure| {
        let no_address = || io::Error::new(io::ErrorKind::AddrNotAvailable, "there is no address to dial");
        failure.unwrap_or_else(no_address)
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

async fn connect(address: PermittedAddress) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address.address()).await?;
    // A request is written in one piece; Nagle's algorithm would only delay it.
    stream.set_nodelay(true)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

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
        assert_eq!(dial(&addresses).await.unwrap().peer_addr().unwrap(), listening);
    }

    #[tokio::test]
    async fn dialling_without_addresses_fails_at_once() {
        assert_eq!(dial(&[]).await.unwrap_err().kind(), io::ErrorKind::AddrNotAvailable);
    }
}
