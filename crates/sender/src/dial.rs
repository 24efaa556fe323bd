//! From permitted addresses to an open socket.
//!
//! A receiver with a dead IPv6 route is still reached over IPv4 within one attempt: the two families take turns.

use std::io;
use std::time::Duration;

use tokio::net::TcpStream;

use crate::guard::Permitted;
use crate::race::first;

/// How long one address may keep us waiting before the next is tried beside it.
const PATIENCE: Duration = Duration::from_millis(250);
/// Addresses that are tried at all. A name may have hundreds; nobody shall make us scan them.
pub(crate) const ADDRESSES_MAX: usize = 6;

/// In this order.
pub(crate) async fn dial(addresses: &[Permitted]) -> io::Result<TcpStream> {
    let dialled = first(addresses.iter().copied(), PATIENCE, connect, |_| false).await;
    dialled.map_err(|failure| {
        let no_address = || io::Error::new(io::ErrorKind::AddrNotAvailable, "there is no address to dial");
        failure.unwrap_or_else(no_address)
    })
}

/// Those to be tried, one family after the other, beginning with that of the first address. The others are let go of:
/// an attempt does not hold what it will not dial.
pub(crate) fn in_turns(addresses: &[Permitted], max: usize) -> Vec<Permitted> {
    let is_first = |address: &&Permitted| address.address().is_ipv4() == addresses[0].address().is_ipv4();
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

async fn connect(address: Permitted) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address.address()).await?;
    // A request is written at once and must leave at once.
    stream.set_nodelay(true)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    fn permitted(addresses: &[&str]) -> Vec<Permitted> {
        let parsed = addresses.iter().map(|address| address.parse::<SocketAddr>().unwrap());
        parsed.map(Permitted::by_configuration).collect()
    }

    #[test]
    fn the_two_families_take_turns() {
        let all = permitted(&["[::1]:1", "[::1]:2", "[::1]:3", "127.0.0.1:4"]);
        assert_eq!(in_turns(&all, 6), permitted(&["[::1]:1", "127.0.0.1:4", "[::1]:2", "[::1]:3"]));
        assert_eq!(in_turns(&all, 3), permitted(&["[::1]:1", "127.0.0.1:4", "[::1]:2"]));
        assert_eq!(in_turns(&[], 6), []);
    }

    #[test]
    fn of_very_many_addresses_only_those_to_be_tried_are_held() {
        let mut all = permitted(&["192.0.2.1:443"; 4_000]);
        all.extend(permitted(&["[2001:db8::1]:443"; 4_000]));
        for max in 1..=ADDRESSES_MAX {
            let held = in_turns(&all, max);
            assert_eq!((held.len(), held.capacity()), (max, max));
            assert_eq!(held.iter().filter(|address| address.address().is_ipv6()).count(), max / 2);
        }
    }

    #[tokio::test]
    async fn an_address_that_refuses_does_not_hide_one_that_answers() {
        let refusing = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let answering = listener.local_addr().unwrap();
        let addresses = [refusing, answering].map(Permitted::by_configuration);
        assert_eq!(dial(&addresses).await.unwrap().peer_addr().unwrap(), answering);
    }

    #[tokio::test]
    async fn no_address_is_an_error_and_not_a_wait() {
        assert_eq!(dial(&[]).await.unwrap_err().kind(), io::ErrorKind::AddrNotAvailable);
    }
}
