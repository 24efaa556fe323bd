//! A slow link to PostgreSQL: a TCP proxy that bounds the bytes per second in each direction, over all connections.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

use crate::clock::{now, sleep_until};

const CHUNK_BYTES: usize = 16 * 1024;
/// Chunks are not delayed by less than this, because tokio's timer rounds up to milliseconds.
const BURST: Duration = Duration::from_millis(1);

/// A running proxy. It stops when this value is dropped.
pub(crate) struct Link {
    port: u16,
    task: AbortHandle,
}

impl Link {
    /// Starts a proxy to a port on this host.
    pub(crate) async fn start(target_port: u16, bytes_per_second: f64) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("loopback has a free port");
        let port = listener.local_addr().expect("the listener is bound").port();
        let directions = [0, 1].map(|_| Arc::new(Throttle::new(bytes_per_second)));
        let task = tokio::spawn(async move {
            // Connections end with this task.
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, target_port)).await else {
                    continue;
                };
                let [up, down] = directions.each_ref().map(Arc::clone);
                connections.spawn(forward_both(client, server, up, down));
            }
        });
        Self { port, task: task.abort_handle() }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn forward_both(client: TcpStream, server: TcpStream, up: Arc<Throttle>, down: Arc<Throttle>) {
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (client_read, client_write) = client.into_split();
    let (server_read, server_write) = server.into_split();
    tokio::join!(forward(client_read, server_write, &up), forward(server_read, client_write, &down));
}

/// Forwards one direction until either side closes.
async fn forward(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    throttle: &Throttle,
) -> Option<()> {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let read = from.read(&mut chunk).await.ok().filter(|read| *read > 0)?;
        throttle.pass(read).await;
        to.write_all(&chunk[..read]).await.ok()?;
    }
}

/// The bandwidth of one direction.
struct Throttle {
    bytes_per_second: f64,
    /// When all bytes so far have passed.
    free_at: Mutex<Instant>,
}

impl Throttle {
    fn new(bytes_per_second: f64) -> Self {
        Self { bytes_per_second, free_at: Mutex::new(now()) }
    }

    /// Waits until some bytes have passed.
    async fn pass(&self, bytes: usize) {
        let duration = Duration::from_secs_f64(bytes as f64 / self.bytes_per_second);
        let passed_at = {
            let mut free_at = self.free_at.lock().expect("no holder panics");
            *free_at = (*free_at).max(now()) + duration;
            *free_at
        };
        if passed_at - now() > BURST {
            sleep_until(passed_at).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn bytes_pass_at_the_rate_of_the_link() {
        let throttle = Throttle::new(1e6);
        let started = now();
        for _ in 0..10 {
            throttle.pass(10_000).await;
        }
        let took = now() - started;
        assert!(took >= Duration::from_millis(98), "{took:?}");
    }
}
