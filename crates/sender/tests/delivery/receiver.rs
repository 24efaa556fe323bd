//! A receiver that does as it should: it reads each request whole and gives the answer it was told to.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use bytes::Bytes;
use posthaste_domain::signature::{Secret, SigningKeys};
use posthaste_domain::{
    DestinationId, DestinationUrl, EventId, EventKey, Lease, LeaseToken, MessageId, Outcome, Trigger,
};
use posthaste_engine::Sender as _;
use posthaste_sender::{AllowedNetworks, HttpSender, SenderOptions};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

pub(crate) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    seen: Arc<Seen>,
}

struct Seen {
    requests: Mutex<Vec<Received>>,
    /// Connections that were ever opened, and those that still are.
    connections: watch::Sender<(usize, usize)>,
    answer: String,
}

#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub(crate) request_line: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }
}

impl Receiver {
    pub(crate) async fn answering(answer: impl Into<String>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Seen {
            requests: Mutex::default(),
            connections: watch::Sender::new((0, 0)),
            answer: answer.into(),
        });
        let serving = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&serving)));
            }
        });
        Self { address, seen }
    }

    pub(crate) async fn accepting() -> Self {
        Self::answering("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    pub(crate) fn requests(&self) -> Vec<Received> {
        self.seen.requests.lock().unwrap().clone()
    }

    /// Connections that were ever opened.
    pub(crate) fn opened(&self) -> usize {
        self.seen.connections.borrow().0
    }

    /// Returns when so many connections are open, and no other number.
    pub(crate) async fn open_connections_become(&self, count: usize) {
        let mut connections = self.seen.connections.subscribe();
        connections.wait_for(|(_, open)| *open == count).await.unwrap();
    }
}

async fn serve(stream: TcpStream, seen: Arc<Seen>) {
    seen.connections.send_modify(|(opened, open)| {
        *opened += 1;
        *open += 1;
    });
    let mut stream = BufReader::new(stream);
    while let Some(request) = read_request(&mut stream).await {
        seen.requests.lock().unwrap().push(request);
        if stream.write_all(seen.answer.as_bytes()).await.is_err() {
            break;
        }
    }
    seen.connections.send_modify(|(_, open)| *open -= 1);
}

async fn read_request(stream: &mut BufReader<TcpStream>) -> Option<Received> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        match line.trim_end_matches("\r\n") {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let headers: Vec<_> = lines[1..]
        .iter()
        .map(|line| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.to_owned(), value.to_owned())
        })
        .collect();
    let mut received = Received { request_line: lines[0].clone(), headers, body: Vec::new() };
    received.body = vec![0; received.header("content-length").unwrap().parse().unwrap()];
    stream.read_exact(&mut received.body).await.ok()?;
    Some(received)
}

/// A sender that may dial loopback, signing with these secrets.
pub(crate) fn sender(secrets: &[&str], change: impl FnOnce(&mut SenderOptions)) -> HttpSender {
    let mut options = SenderOptions::new();
    options.allowed_networks = AllowedNetworks::loopback();
    change(&mut options);
    HttpSender::new(options, keys(secrets)).unwrap()
}

pub(crate) fn keys(secrets: &[&str]) -> SigningKeys {
    SigningKeys::new(secrets.iter().map(|secret| Secret::parse(secret).unwrap()).collect()).unwrap()
}

pub(crate) async fn send(sender: &HttpSender, lease: &Lease) -> Outcome {
    sender.send(lease, TIMEOUT).await
}

pub(crate) fn lease(url: &str) -> Lease {
    Lease {
        token: LeaseToken::random([7; 16]),
        key: EventKey(1),
        event_id: EventId::new("msg_p5jXN8AQM9LWM0D4loKWxJek").unwrap(),
        message_id: MessageId::v7(posthaste_domain::Timestamp::default(), [9; 10]),
        destination_id: DestinationId(1),
        destination_url: DestinationUrl::stored(url.to_owned()),
        event_type: "invoice.paid".to_owned(),
        content_type: "application/json".to_owned(),
        payload: Bytes::from_static(br#"{"test": 2432232314}"#),
        traceparent: None,
        attempts: 0,
        max_attempts: 6,
        trigger: Trigger::Scheduled,
        overdue: Duration::ZERO,
    }
}
