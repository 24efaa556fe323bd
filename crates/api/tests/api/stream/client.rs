//! A Server-Sent Events client on a real socket.

use http::{HeaderName, HeaderValue};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::test_api::{STREAM, TestApi, header, within_a_minute};

/// One Server-Sent Event.
#[derive(Debug)]
pub(super) struct SseEvent {
    pub(super) event: String,
    pub(super) id: String,
    pub(super) data: Value,
}

/// A client of the notice stream.
pub(super) struct StreamClient {
    pub(super) head: String,
    /// The id of the stream's first block.
    pub(super) first_id: String,
    lines: BufReader<TcpStream>,
}

/// An HTTP server for the API that the test stops.
pub(super) struct TestHttpServer {
    stop: oneshot::Sender<()>,
    served: JoinHandle<std::io::Result<()>>,
}

impl TestHttpServer {
    async fn start(api: &TestApi) -> (Self, std::net::SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stop_requested) = oneshot::channel::<()>();
        let serve = axum::serve(listener, api.router.clone()).with_graceful_shutdown(async {
            // An error means that the test dropped the sender; the server stops then too.
            let _ = stop_requested.await;
        });
        (Self { stop, served: tokio::spawn(async move { serve.await }) }, address)
    }

    pub(super) async fn stop(self) {
        self.stop.send(()).unwrap();
        within_a_minute(self.served).await.unwrap().unwrap();
    }
}

impl StreamClient {
    pub(super) async fn connect(api: &TestApi, last_event_id: Option<&str>) -> Self {
        let headers: Vec<_> = last_event_id.map(|id| header("last-event-id", id)).into_iter().collect();
        Self::connect_with(api, &headers).await
    }

    pub(super) async fn connect_with(api: &TestApi, headers: &[(HeaderName, HeaderValue)]) -> Self {
        let (server, address) = TestHttpServer::start(api).await;
        // Keep the server running until the test ends.
        std::mem::forget(server.stop);
        Self::open(address, headers).await
    }

    pub(super) async fn connect_to_own_server(api: &TestApi) -> (Self, TestHttpServer) {
        let (server, address) = TestHttpServer::start(api).await;
        (Self::open(address, &[]).await, server)
    }

    /// Uses HTTP/1.0, so that the body is not chunked and ends with the connection.
    async fn open(address: std::net::SocketAddr, headers: &[(HeaderName, HeaderValue)]) -> Self {
        let mut socket = TcpStream::connect(address).await.unwrap();
        let mut request = format!("GET {STREAM} HTTP/1.0\r\nhost: {address}\r\n");
        for (name, value) in headers {
            request += &format!("{name}: {}\r\n", value.to_str().unwrap());
        }
        socket.write_all(format!("{request}\r\n").as_bytes()).await.unwrap();
        let mut client = Self { head: String::new(), first_id: String::new(), lines: BufReader::new(socket) };
        loop {
            let line = client.line().await.expect("the response has a head");
            if line.is_empty() {
                break;
            }
            client.head += &line;
            client.head.push('\n');
        }
        // After the first block, the client misses no notice.
        let first_block = client.block().await.expect("a stream sends its first block immediately");
        let id = first_block.iter().find_map(|line| line.strip_prefix("id: "));
        client.first_id = id.expect("the first block has an id").to_owned();
        client
    }

    async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = within_a_minute(self.lines.read_line(&mut line)).await.unwrap();
        (read > 0).then(|| line.trim_end().to_owned())
    }

    /// Reads the lines up to an empty one; `None` at the end of the stream.
    async fn block(&mut self) -> Option<Vec<String>> {
        let mut block = Vec::new();
        loop {
            match self.line().await? {
                line if line.is_empty() => return Some(block),
                line => block.push(line),
            }
        }
    }

    /// Reads the next event and skips comments.
    pub(super) async fn next(&mut self) -> SseEvent {
        loop {
            let block = self.block().await.expect("the stream continues");
            let field = |name: &str| {
                let found = block.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
                found.map(|value| value.trim_start().to_owned())
            };
            if let Some(data) = field("data") {
                let data = serde_json::from_str(&data).unwrap();
                return SseEvent { event: field("event").unwrap(), id: field("id").unwrap(), data };
            }
        }
    }

    /// Reads to the end of the stream. Returns true when it has ended.
    pub(super) async fn wait_for_end(&mut self) -> bool {
        while self.block().await.is_some() {}
        true
    }
}
