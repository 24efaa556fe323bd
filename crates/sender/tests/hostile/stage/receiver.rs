//! A receiver on loopback. Its first connection is played by a script; every later one is served as it should be,
//! which shows whether the sender got over the first.

use std::io;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use crate::stage::certificates::{Certificates, Handshake, RECEIVER};
use crate::stage::peer::{Peer, Protocol};
use crate::stage::script::{Step, Transport};
use crate::stage::socket::Socket;

pub(crate) struct Receiver {
    pub(crate) url: String,
    pub(crate) seen: Arc<Seen>,
    listening: JoinHandle<()>,
}

/// What came in, over all connections.
#[derive(Default)]
pub(crate) struct Seen {
    connections: AtomicUsize,
    heads: Mutex<Vec<String>>,
    arrived: watch::Sender<usize>,
    script_is_over: AtomicBool,
    /// What a script waits for where it says so.
    pub(crate) signal: Notify,
}

impl Seen {
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn requests(&self) -> usize {
        self.heads.lock().unwrap().len()
    }

    /// Returns when so many requests have arrived.
    pub(crate) async fn has(&self, requests: usize) {
        self.arrived.subscribe().wait_for(|arrived| *arrived >= requests).await.unwrap();
    }

    /// A flood is over when the sender has hung up.
    pub(crate) fn script_is_over(&self) -> bool {
        self.script_is_over.load(Ordering::SeqCst)
    }

    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }

    pub(crate) fn request(&self, head: String) {
        self.heads.lock().unwrap().push(head);
        self.arrived.send_modify(|arrived| *arrived += 1);
    }
}

impl Receiver {
    pub(crate) async fn start(certificates: &Certificates, over: Transport, steps: Arc<[Step]>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let url = match over {
            Transport::Plain => format!("http://127.0.0.1:{port}/hook"),
            Transport::Tls(_) | Transport::InPlaceOfTls => format!("https://{RECEIVER}:{port}/hook"),
        };
        let seen = Arc::new(Seen::default());
        let first = Greeting::new(certificates, over);
        let later = Greeting::new(certificates, over.well_behaved());
        let listening = tokio::spawn(listen(listener, Arc::clone(&seen), first, later, steps));
        Self { url, seen, listening }
    }

    /// Lets a script that waits go on.
    pub(crate) fn go_on(&self) {
        self.seen.signal.notify_one();
    }
}

/// Takes its connections with it.
impl Drop for Receiver {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl Transport {
    fn well_behaved(self) -> Self {
        match self {
            Self::Plain => Self::Plain,
            Self::Tls(Handshake::Http2) => Self::Tls(Handshake::Http2),
            Self::Tls(_) | Self::InPlaceOfTls => Self::Tls(Handshake::Http1),
        }
    }
}

/// How a connection begins.
#[derive(Clone)]
struct Greeting {
    acceptor: Option<TlsAcceptor>,
    protocol: Protocol,
}

impl Greeting {
    fn new(certificates: &Certificates, over: Transport) -> Self {
        match over {
            Transport::Plain | Transport::InPlaceOfTls => Self { acceptor: None, protocol: Protocol::Http1 },
            Transport::Tls(handshake) => Self {
                acceptor: Some(TlsAcceptor::from(certificates.server(handshake))),
                protocol: match handshake {
                    Handshake::Http2 => Protocol::Http2,
                    _ => Protocol::Http1,
                },
            },
        }
    }

    async fn exchange(self, stream: TcpStream, seen: Arc<Seen>) -> io::Result<Peer> {
        let socket = match self.acceptor {
            Some(acceptor) => Socket::secured(stream, &acceptor).await?,
            None => Socket::Tcp(stream),
        };
        Ok(Peer::new(socket, self.protocol, seen))
    }
}

async fn listen(
    listener: TcpListener,
    seen: Arc<Seen>,
    first: Greeting,
    later: Greeting,
    steps: Arc<[Step]>,
) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let number = seen.connections.fetch_add(1, Ordering::SeqCst) + 1;
        let (seen, steps) = (Arc::clone(&seen), Arc::clone(&steps));
        let greeting = if number == 1 { first.clone() } else { later.clone() };
        connections.spawn(async move {
            let mut peer = greeting.exchange(stream, Arc::clone(&seen)).await?;
            if number > 1 {
                return peer.serve().await;
            }
            let played = peer.play(&steps).await;
            seen.script_is_over.store(true, Ordering::SeqCst);
            played
        });
    }
}
