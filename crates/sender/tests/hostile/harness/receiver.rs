//! A receiver on loopback. It plays a script on its first connection and serves all later ones correctly, which shows
//! whether the sender recovers.

use std::io;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

use crate::harness::certificates::{Certificates, Handshake, RECEIVER_NAME};
use crate::harness::peer::{Peer, Protocol};
use crate::harness::script::{Step, Transport};
use crate::harness::socket::Socket;

/// A scripted receiver. It closes all its connections when dropped.
pub(crate) struct Receiver {
    pub(crate) url: String,
    pub(crate) log: Arc<ReceiverLog>,
    listening: JoinHandle<()>,
}

/// Connections and requests that a receiver has seen.
#[derive(Default)]
pub(crate) struct ReceiverLog {
    connections: AtomicUsize,
    heads: Mutex<Vec<String>>,
    arrived: watch::Sender<usize>,
    script_played: AtomicBool,
    script_ended: AtomicBool,
    /// Wakes a script that waits.
    pub(crate) continue_signal: Notify,
}

impl ReceiverLog {
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn requests(&self) -> usize {
        self.heads.lock().unwrap().len()
    }

    /// Waits until this many requests have arrived.
    pub(crate) async fn wait_for_requests(&self, requests: usize) {
        self.arrived.subscribe().wait_for(|arrived| *arrived >= requests).await.unwrap();
    }

    /// Returns whether the receiver has closed or reset the connection, or has come to the step that it repeats until the sender
    /// closes the connection.
    pub(crate) fn script_played(&self) -> bool {
        self.script_played.load(Ordering::SeqCst)
    }

    pub(crate) fn record_script_played(&self) {
        self.script_played.store(true, Ordering::SeqCst);
    }

    /// Returns whether the script has ended. A flood ends when the sender closes the connection.
    pub(crate) fn script_ended(&self) -> bool {
        self.script_ended.load(Ordering::SeqCst)
    }

    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }

    pub(crate) fn record_request(&self, head: String) {
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
            Transport::Tls(_) | Transport::InsteadOfTls => format!("https://{RECEIVER_NAME}:{port}/hook"),
        };
        let log = Arc::new(ReceiverLog::default());
        let first = ConnectionSetup::new(certificates, over);
        let later = ConnectionSetup::new(certificates, over.well_behaved());
        let listening = tokio::spawn(listen(listener, Arc::clone(&log), first, later, steps));
        Self { url, log, listening }
    }

    /// Continues a script that waits.
    pub(crate) fn continue_script(&self) {
        self.log.continue_signal.notify_one();
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl Transport {
    /// The same scheme with a valid handshake, for connections after the script.
    fn well_behaved(self) -> Self {
        match self {
            Self::Plain => Self::Plain,
            Self::Tls(Handshake::Http2) => Self::Tls(Handshake::Http2),
            Self::Tls(_) | Self::InsteadOfTls => Self::Tls(Handshake::Http1),
        }
    }
}

/// The layers of a new connection: TLS or not, and the HTTP version.
#[derive(Clone)]
struct ConnectionSetup {
    acceptor: Option<TlsAcceptor>,
    protocol: Protocol,
}

impl ConnectionSetup {
    fn new(certificates: &Certificates, over: Transport) -> Self {
        match over {
            Transport::Plain | Transport::InsteadOfTls => Self { acceptor: None, protocol: Protocol::Http1 },
            Transport::Tls(handshake) => Self {
                acceptor: Some(TlsAcceptor::from(certificates.server_config(handshake))),
                protocol: match handshake {
                    Handshake::Http2 => Protocol::Http2,
                    _ => Protocol::Http1,
                },
            },
        }
    }

    async fn accept(self, stream: TcpStream, log: Arc<ReceiverLog>) -> io::Result<Peer> {
        let socket = match self.acceptor {
            Some(acceptor) => Socket::accept_tls(stream, &acceptor).await?,
            None => Socket::Tcp(stream),
        };
        Ok(Peer::new(socket, self.protocol, log))
    }
}

async fn listen(
    listener: TcpListener,
    log: Arc<ReceiverLog>,
    first: ConnectionSetup,
    later: ConnectionSetup,
    steps: Arc<[Step]>,
) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let number = log.connections.fetch_add(1, Ordering::SeqCst) + 1;
        let (log, steps) = (Arc::clone(&log), Arc::clone(&steps));
        let setup = if number == 1 { first.clone() } else { later.clone() };
        connections.spawn(async move {
            let mut peer = setup.accept(stream, Arc::clone(&log)).await?;
            if number > 1 {
                return peer.serve().await;
            }
            let played = peer.play(&steps).await;
            log.record_script_played();
            log.script_ended.store(true, Ordering::SeqCst);
            played
        });
    }
}
