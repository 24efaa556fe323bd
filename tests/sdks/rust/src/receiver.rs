//! A receiver on loopback that keeps the requests it gets and answers with a status per path.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;

/// How long a delivery may take to arrive.
pub const TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Clone)]
pub struct Delivery {
    path: String,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

#[derive(Default)]
struct State {
    deliveries: Mutex<Vec<Delivery>>,
    statuses: Mutex<BTreeMap<String, u16>>,
}

pub struct Receiver {
    address: SocketAddr,
    state: Arc<State>,
    count: watch::Receiver<usize>,
}

impl Receiver {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State::default());
        let (counter, count) = watch::channel(0);
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (state, counter) = (Arc::clone(&shared), counter.clone());
                // The sender may close its connection at any time.
                tokio::spawn(async move { serve(stream, &state, &counter).await });
            }
        });
        Self { address, state, count }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn answer(&self, path: &str, status: u16) {
        self.state.statuses.lock().unwrap().insert(path.to_owned(), status);
    }

    /// The deliveries of a message to a path so far.
    pub fn of(&self, path: &str, id: &str) -> Vec<Delivery> {
        let deliveries = self.state.deliveries.lock().unwrap();
        let is_wanted = |one: &&Delivery| {
            one.path == path && one.headers.get("webhook-id").is_some_and(|value| value == id)
        };
        deliveries.iter().filter(is_wanted).cloned().collect()
    }

    /// Waits until a message has arrived this many times, and returns its last delivery.
    pub async fn wait_for(&self, path: &str, id: &str, count: usize) -> Delivery {
        let mut changes = self.count.clone();
        let arrived = timeout(TIMEOUT, changes.wait_for(|_| self.of(path, id).len() >= count)).await;
        assert!(arrived.is_ok(), "{id} arrived {} of {count} times at {path}", self.of(path, id).len());
        self.of(path, id).pop().unwrap()
    }
}

async fn serve(stream: TcpStream, state: &State, counter: &watch::Sender<usize>) -> Option<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        let path = line.split(' ').nth(1)?.to_owned();
        let mut headers = HeaderMap::new();
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).await.ok()?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.insert(HeaderName::try_from(name).ok()?, HeaderValue::try_from(value.trim()).ok()?);
        }
        let length = headers.get("content-length")?.to_str().ok()?.parse().ok()?;
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.ok()?;
        let status = state.statuses.lock().unwrap().get(&path).copied().unwrap_or(200);
        state.deliveries.lock().unwrap().push(Delivery { path, headers, body });
        counter.send_modify(|count| *count += 1);
        let response = format!("HTTP/1.1 {status} reason\r\ncontent-length: 2\r\n\r\nok");
        stream.write_all(response.as_bytes()).await.ok()?;
    }
}
