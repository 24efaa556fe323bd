//! A client of Server-Sent Events, on a socket of its own.

use http::{HeaderName, HeaderValue};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::stage::{STREAM, Stage, header, soon};

/// One Server-Sent Event.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) event: String,
    pub(super) id: String,
    pub(super) data: Value,
}

pub(super) struct Follower {
    pub(super) head: String,
    /// The id that the stream began with.
    pub(super) began_at: String,
    lines: BufReader<TcpStream>,
}

/// A server that stops when it is told to.
pub(super) struct Serving {
    stop: oneshot::Sender<()>,
    served: JoinHandle<std::io::Result<()>>,
}

impl Serving {
    async fn start(stage: &Stage) -> (Self, std::net::SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let serve = axum::serve(listener, stage.router.clone()).with_graceful_shutdown(async {
            // Told to stop, or forgotten by a test that goes on without it.
            let _ = stopped.await;
        });
        (Self { stop, served: tokio::spawn(async move { serve.await }) }, address)
    }

    pub(super) async fn stop(self) {
        self.stop.send(()).unwrap();
        soon(self.served).await.unwrap().unwrap();
    }
}

impl Follower {
    pub(super) async fn connect(stage: &Stage, last_event_id: Option<&str>) -> Self {
        let headers: Vec<_> = last_event_id.map(|id| header("last-event-id", id)).into_iter().collect();
        Self::connect_with(stage, &headers).await
    }

    pub(super) async fn connect_with(stage: &Stage, headers: &[(HeaderName, HeaderValue)]) -> Self {
        let (serving, address) = Serving::start(stage).await;
        // The server goes on until the test ends.
        std::mem::forget(serving.stop);
        Self::open(address, headers).await
    }

    pub(super) async fn connect_to_own_server(stage: &Stage) -> (Self, Serving) {
        let (serving, address) = Serving::start(stage).await;
        (Self::open(address, &[]).await, serving)
    }

    /// HTTP/1.0, so that the body comes as it is and ends with the connection.
    async fn open(address: std::net::SocketAddr, headers: &[(HeaderName, HeaderValue)]) -> Self {
        let mut socket = TcpStream::connect(address).await.unwrap();
        let mut request = format!("GET {STREAM} HTTP/1.0\r\nhost: {address}\r\n");
        for (name, value) in headers {
            request += &format!("{name}: {}\r\n", value.to_str().unwrap());
        }
        socket.write_all(format!("{request}\r\n").as_bytes()).await.unwrap();
        let mut follower =
            Self { head: String::new(), began_at: String::new(), lines: BufReader::new(socket) };
        loop {
            let line = follower.line().await.expect("the head of an answer");
            if line.is_empty() {
                break;
            }
            follower.head += &line;
            follower.head.push('\n');
        }
        // The first thing that is said; from then on nothing is missed.
        let hello = follower.block().await.expect("a stream begins at once");
        let id = hello.iter().find_map(|line| line.strip_prefix("id: "));
        follower.began_at = id.expect("a stream begins with an id").to_owned();
        follower
    }

    async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = soon(self.lines.read_line(&mut line)).await.unwrap();
        (read > 0).then(|| line.trim_end().to_owned())
    }

    /// The lines up to an empty one; none at the end.
    async fn block(&mut self) -> Option<Vec<String>> {
        let mut block = Vec::new();
        loop {
            match self.line().await? {
                line if line.is_empty() => return Some(block),
                line => block.push(line),
            }
        }
    }

    /// The next event; comments are passed over.
    pub(super) async fn next(&mut self) -> Told {
        loop {
            let block = self.block().await.expect("the stream goes on");
            let field = |name: &str| {
                let found = block.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
                found.map(|value| value.trim_start().to_owned())
            };
            if let Some(data) = field("data") {
                let data = serde_json::from_str(&data).unwrap();
                return Told { event: field("event").unwrap(), id: field("id").unwrap(), data };
            }
        }
    }

    /// True when the stream ends, whatever is still told before.
    pub(super) async fn ended(&mut self) -> bool {
        while self.block().await.is_some() {}
        true
    }
}
