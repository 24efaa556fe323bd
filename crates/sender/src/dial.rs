//! From permitted addresses to an open socket.
//!
//! Addresses are tried in turn, the next one when the last has failed or has kept us waiting for a moment, and the
//! first that answers wins: a receiver with a dead IPv6 route is still reached over IPv4 within one attempt.

use std::io;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::net::TcpStream;

use crate::guard::Permitted;

/// How long one address may keep us waiting before the next is tried beside it.
const PATIENCE: Duration = Duration::from_millis(250);
/// Addresses that are tried at all. A name may have hundreds; nobody shall make us scan them.
const ADDRESSES_MAX: usize = 6;

pub(crate) async fn dial(addresses: &[Permitted]) -> io::Result<TcpStream> {
    let mut waiting = in_turns(addresses).into_iter().take(ADDRESSES_MAX);
    let mut dialling = FuturesUnordered::new();
    let mut failure = io::Error::new(io::ErrorKind::AddrNotAvailable, "there is no address to dial");
    dialling.extend(waiting.next().map(connect));
    loop {
        tokio::select! {
            biased;
            Some(connected) = dialling.next() => match connected {
                Ok(stream) => return Ok(stream),
                Err(error) => {
                    failure = error;
                    dialling.extend(waiting.next().map(connect));
                }
            },
            () = patience(), if waiting.len() > 0 => dialling.extend(waiting.next().map(connect)),
            else => return Err(failure),
        }
    }
}

/// One family after the other, beginning with that of the first address.
fn in_turns(addresses: &[Permitted]) -> Vec<Permitted> {
    let is_first = |address: &&Permitted| address.address().is_ipv4() == addresses[0].address().is_ipv4();
    let (mut first, mut second) =
        (addresses.iter().filter(is_first), addresses.iter().filter(|address| !is_first(address)));
    let mut ordered = Vec::with_capacity(addresses.len());
    loop {
        let pair = [first.next(), second.next()];
        if pair == [None, None] {
            return ordered;
        }
        ordered.extend(pair.into_iter().flatten().copied());
    }
}

async fn connect(address: Permitted) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address.address()).await?;
    // A request is written at once and must leave at once.
    stream.set_nodelay(true)?;
    Ok(stream)
}

#[expect(clippy::disallowed_methods, reason = "real sockets are waited for in real time")]
async fn patience() {
    tokio::time::sleep(PATIENCE).await;
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
        let order = in_turns(&permitted(&["[::1]:1", "[::1]:2", "[::1]:3", "127.0.0.1:4"]));
        assert_eq!(order, permitted(&["[::1]:1", "127.0.0.1:4", "[::1]:2", "[::1]:3"]));
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
