//! A DNS server on loopback, over UDP and TCP. It builds its responses byte by byte, so that they can be invalid.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use posthaste_sender::{DnsResolver, LookupError, Resolver as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::watch;

pub(crate) const NXDOMAIN: u8 = 3;
pub(crate) const SERVFAIL: u8 = 2;
pub(crate) const REFUSED: u8 = 5;

const TYPE_A: u16 = 1;
const TYPE_CNAME: u16 = 5;
const TYPE_SOA: u16 = 6;
const TYPE_AAAA: u16 = 28;
const CLASS_IN: u16 = 1;
const HEADER_LEN: usize = 12;

/// A DNS server that records its queries.
pub(crate) struct DnsServer {
    pub(crate) address: SocketAddr,
    queries: watch::Sender<Vec<Query>>,
}

/// A received query.
#[derive(Debug, Clone)]
pub(crate) struct Query {
    pub(crate) name: String,
    pub(crate) family: Family,
    pub(crate) over_tcp: bool,
    id: [u8; 2],
    /// The question section, which a response repeats.
    section: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

/// The response to a query, as separate packets.
pub(crate) type Packets = Vec<Vec<u8>>;

impl DnsServer {
    pub(crate) async fn responding(respond: impl Fn(&Query) -> Packets + Send + Sync + 'static) -> Self {
        let (udp, tcp) = sockets().await;
        let address = udp.local_addr().unwrap();
        let queries = watch::Sender::new(Vec::new());
        let recorded = queries.clone();
        let respond = Arc::new(move |query: Query| {
            let packets = respond(&query);
            recorded.send_modify(|queries| queries.push(query));
            packets
        });
        let respond_tcp = Arc::clone(&respond);
        tokio::spawn(async move {
            let mut packet = [0; 1_500];
            while let Ok((len, client)) = udp.recv_from(&mut packet).await {
                for packet in respond(Query::parse(&packet[..len], false)) {
                    udp.send_to(&packet, client).await.unwrap();
                }
            }
        });
        tokio::spawn(async move {
            while let Ok((stream, _)) = tcp.accept().await {
                tokio::spawn(serve_tcp(stream, Arc::clone(&respond_tcp)));
            }
        });
        Self { address, queries }
    }

    /// Starts a server that resolves every name to these addresses.
    pub(crate) async fn with_addresses(ttl: u32, addresses: &[&str]) -> Self {
        let addresses: Vec<IpAddr> = addresses.iter().map(|address| address.parse().unwrap()).collect();
        Self::responding(move |query| vec![query.addresses(ttl, &addresses)]).await
    }

    pub(crate) fn resolver(&self) -> DnsResolver {
        DnsResolver::with_servers(&[self.address])
    }

    pub(crate) async fn lookup(&self, name: &str) -> Result<Vec<IpAddr>, LookupError> {
        self.resolver().lookup(name).await
    }

    pub(crate) fn queries(&self) -> Vec<Query> {
        self.queries.borrow().clone()
    }

    /// Waits until this many queries have arrived.
    pub(crate) async fn wait_for_queries(&self, count: usize) {
        self.queries.subscribe().wait_for(|queries| queries.len() >= count).await.unwrap();
    }

    pub(crate) fn query_count(&self) -> usize {
        self.queries.borrow().len()
    }
}

impl Query {
    fn parse(packet: &[u8], over_tcp: bool) -> Self {
        let mut labels = Vec::new();
        let mut rest = &packet[HEADER_LEN..];
        while let [len @ 1..=63, tail @ ..] = rest {
            let (label, tail) = tail.split_at(usize::from(*len));
            labels.push(String::from_utf8(label.to_vec()).unwrap());
            rest = tail;
        }
        let family = match u16::from_be_bytes([rest[1], rest[2]]) {
            TYPE_A => Family::V4,
            TYPE_AAAA => Family::V6,
            other => panic!("unexpected query for type {other}"),
        };
        let section_len = packet.len() - HEADER_LEN - rest.len() + 5;
        let section = packet[HEADER_LEN..HEADER_LEN + section_len].to_vec();
        Self { name: labels.join("."), family, over_tcp, id: [packet[0], packet[1]], section }
    }

    /// Responds with the addresses of the queried family.
    pub(crate) fn addresses(&self, ttl: u32, addresses: &[IpAddr]) -> Vec<u8> {
        let records = addresses.iter().filter_map(|address| self.address_record(&self.name, ttl, *address));
        self.response(0, &records.collect::<Vec<_>>(), &[])
    }

    /// Responds that the name is an alias, with the addresses of its target or without.
    pub(crate) fn alias(&self, ttl: u32, of: &str, addresses: &[IpAddr]) -> Vec<u8> {
        let records = addresses.iter().filter_map(|address| self.address_record(of, ttl, *address));
        let alias = record(&self.name, TYPE_CNAME, ttl, &encode_name(of));
        self.response(0, &[alias].into_iter().chain(records).collect::<Vec<_>>(), &[])
    }

    /// Responds with this response code and no records.
    pub(crate) fn code(&self, code: u8) -> Vec<u8> {
        self.response(code, &[], &[])
    }

    /// Responds that there are no records, with a TTL for this negative answer.
    pub(crate) fn no_records(&self, code: u8, ttl: u32) -> Vec<u8> {
        let numbers = [1, 7_200, 900, 86_400, ttl].map(u32::to_be_bytes).concat();
        let authority = [encode_name("ns.example"), encode_name("admin.example"), numbers].concat();
        self.response(code, &[], &[record("example", TYPE_SOA, ttl, &authority)])
    }

    /// Responds that the answer is too long for UDP, so that the client retries over TCP.
    pub(crate) fn truncated(&self) -> Vec<u8> {
        let mut packet = self.code(0);
        packet[2] |= 0x02;
        packet
    }

    fn address_record(&self, name: &str, ttl: u32, address: IpAddr) -> Option<Vec<u8>> {
        match (address, self.family) {
            (IpAddr::V4(ip), Family::V4) => Some(record(name, TYPE_A, ttl, &ip.octets())),
            (IpAddr::V6(ip), Family::V6) => Some(record(name, TYPE_AAAA, ttl, &ip.octets())),
            _ => None,
        }
    }

    fn response(&self, code: u8, answers: &[Vec<u8>], authorities: &[Vec<u8>]) -> Vec<u8> {
        let counts = [1, answers.len(), authorities.len(), 0].map(|count| u16::try_from(count).unwrap());
        let counts = counts.map(u16::to_be_bytes).concat();
        // A response to a recursive query, from a recursive server.
        let flags = [0x81, 0x80 | code];
        [&self.id[..], &flags, &counts, &self.section, &answers.concat(), &authorities.concat()].concat()
    }
}

fn record(name: &str, record_type: u16, ttl: u32, data: &[u8]) -> Vec<u8> {
    let numbers = [record_type, CLASS_IN].map(u16::to_be_bytes).concat();
    let len = u16::try_from(data.len()).unwrap().to_be_bytes();
    [&encode_name(name)[..], &numbers, &ttl.to_be_bytes(), &len, data].concat()
}

fn encode_name(name: &str) -> Vec<u8> {
    let labels =
        name.split('.').flat_map(|label| [&[u8::try_from(label.len()).unwrap()], label.as_bytes()].concat());
    labels.chain([0]).collect()
}

/// Binds UDP and TCP sockets on one port.
async fn sockets() -> (UdpSocket, TcpListener) {
    loop {
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        if let Ok(udp) = UdpSocket::bind(tcp.local_addr().unwrap()).await {
            return (udp, tcp);
        }
    }
}

async fn serve_tcp(mut stream: TcpStream, respond: Arc<impl Fn(Query) -> Packets>) {
    while let Ok(len) = stream.read_u16().await {
        let mut packet = vec![0; usize::from(len)];
        stream.read_exact(&mut packet).await.unwrap();
        for packet in respond(Query::parse(&packet, true)) {
            stream.write_u16(u16::try_from(packet.len()).unwrap()).await.unwrap();
            stream.write_all(&packet).await.unwrap();
        }
    }
}

pub(crate) fn addresses(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// Awaits a future and panics if it takes longer than the limit.
#[expect(clippy::disallowed_methods, reason = "real sockets run in real time")]
pub(crate) async fn within<T>(limit: Duration, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(limit, future).await.expect("the future did not finish in time")
}
