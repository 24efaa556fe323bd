//! A DNS server on loopback, over UDP and TCP. Its answers are put together byte by byte, by nobody's library.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use posthaste_sender::{LookupError, OwnResolver, Resolve as _};
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

pub(crate) struct DnsServer {
    pub(crate) address: SocketAddr,
    questions: watch::Sender<Vec<Question>>,
}

#[derive(Debug, Clone)]
pub(crate) struct Question {
    pub(crate) name: String,
    pub(crate) family: Family,
    pub(crate) over_tcp: bool,
    id: [u8; 2],
    /// The question's section, to be repeated in its answer.
    section: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

/// What is sent back for a question, packet by packet.
pub(crate) type Packets = Vec<Vec<u8>>;

impl DnsServer {
    pub(crate) async fn answering(answer: impl Fn(&Question) -> Packets + Send + Sync + 'static) -> Self {
        let (udp, tcp) = sockets().await;
        let address = udp.local_addr().unwrap();
        let questions = watch::Sender::new(Vec::new());
        let asked = questions.clone();
        let answer = Arc::new(move |question: Question| {
            let packets = answer(&question);
            asked.send_modify(|questions| questions.push(question));
            packets
        });
        let answer_tcp = Arc::clone(&answer);
        tokio::spawn(async move {
            let mut packet = [0; 1_500];
            while let Ok((len, client)) = udp.recv_from(&mut packet).await {
                for packet in answer(Question::parse(&packet[..len], false)) {
                    udp.send_to(&packet, client).await.unwrap();
                }
            }
        });
        tokio::spawn(async move {
            while let Ok((stream, _)) = tcp.accept().await {
                tokio::spawn(serve_tcp(stream, Arc::clone(&answer_tcp)));
            }
        });
        Self { address, questions }
    }

    /// Every name has these addresses.
    pub(crate) async fn with_addresses(ttl: u32, addresses: &[&str]) -> Self {
        let addresses: Vec<IpAddr> = addresses.iter().map(|address| address.parse().unwrap()).collect();
        Self::answering(move |question| vec![question.addresses(ttl, &addresses)]).await
    }

    pub(crate) fn resolver(&self) -> OwnResolver {
        OwnResolver::with_servers(&[self.address])
    }

    pub(crate) async fn lookup(&self, name: &str) -> Result<Vec<IpAddr>, LookupError> {
        self.resolver().lookup(name).await
    }

    pub(crate) fn questions(&self) -> Vec<Question> {
        self.questions.borrow().clone()
    }

    pub(crate) fn asked(&self) -> usize {
        self.questions.borrow().len()
    }
}

impl Question {
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
            other => panic!("nobody asks for type {other}"),
        };
        let section_len = packet.len() - HEADER_LEN - rest.len() + 5;
        let section = packet[HEADER_LEN..HEADER_LEN + section_len].to_vec();
        Self { name: labels.join("."), family, over_tcp, id: [packet[0], packet[1]], section }
    }

    /// Those of the addresses that the question is for.
    pub(crate) fn addresses(&self, ttl: u32, addresses: &[IpAddr]) -> Vec<u8> {
        let records = addresses.iter().filter_map(|address| self.address_record(&self.name, ttl, *address));
        self.answer(0, &records.collect::<Vec<_>>(), &[])
    }

    /// The name is another's alias, whose addresses are said as well or are left to be asked for.
    pub(crate) fn alias(&self, ttl: u32, of: &str, addresses: &[IpAddr]) -> Vec<u8> {
        let records = addresses.iter().filter_map(|address| self.address_record(of, ttl, *address));
        let alias = record(&self.name, TYPE_CNAME, ttl, &encoded(of));
        self.answer(0, &[alias].into_iter().chain(records).collect::<Vec<_>>(), &[])
    }

    pub(crate) fn code(&self, code: u8) -> Vec<u8> {
        self.answer(code, &[], &[])
    }

    /// No such records, and for how long that is sure.
    pub(crate) fn nothing(&self, code: u8, ttl: u32) -> Vec<u8> {
        let numbers = [1, 7_200, 900, 86_400, ttl].map(u32::to_be_bytes).concat();
        let authority = [encoded("ns.example"), encoded("admin.example"), numbers].concat();
        self.answer(code, &[], &[record("example", TYPE_SOA, ttl, &authority)])
    }

    /// Too long for UDP: ask again over TCP.
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

    fn answer(&self, code: u8, answers: &[Vec<u8>], authorities: &[Vec<u8>]) -> Vec<u8> {
        let counts = [1, answers.len(), authorities.len(), 0].map(|count| u16::try_from(count).unwrap());
        let counts = counts.map(u16::to_be_bytes).concat();
        // A response to a recursive question, from a server that recurses.
        let flags = [0x81, 0x80 | code];
        [&self.id[..], &flags, &counts, &self.section, &answers.concat(), &authorities.concat()].concat()
    }
}

fn record(name: &str, record_type: u16, ttl: u32, data: &[u8]) -> Vec<u8> {
    let numbers = [record_type, CLASS_IN].map(u16::to_be_bytes).concat();
    let len = u16::try_from(data.len()).unwrap().to_be_bytes();
    [&encoded(name)[..], &numbers, &ttl.to_be_bytes(), &len, data].concat()
}

fn encoded(name: &str) -> Vec<u8> {
    let labels =
        name.split('.').flat_map(|label| [&[u8::try_from(label.len()).unwrap()], label.as_bytes()].concat());
    labels.chain([0]).collect()
}

/// Both on one port.
async fn sockets() -> (UdpSocket, TcpListener) {
    loop {
        let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        if let Ok(udp) = UdpSocket::bind(tcp.local_addr().unwrap()).await {
            return (udp, tcp);
        }
    }
}

async fn serve_tcp(mut stream: TcpStream, answer: Arc<impl Fn(Question) -> Packets>) {
    while let Ok(len) = stream.read_u16().await {
        let mut packet = vec![0; usize::from(len)];
        stream.read_exact(&mut packet).await.unwrap();
        for packet in answer(Question::parse(&packet, true)) {
            stream.write_u16(u16::try_from(packet.len()).unwrap()).await.unwrap();
            stream.write_all(&packet).await.unwrap();
        }
    }
}

pub(crate) fn addresses(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// Fails where something takes longer than it may.
#[expect(clippy::disallowed_methods, reason = "real sockets are waited for in real time")]
pub(crate) async fn within<T>(limit: Duration, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(limit, future).await.expect("it takes too long")
}
