//! A receiver that responds 200 to every request, in a separate process.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Command-line argument that starts the sink.
pub(crate) const ARGUMENT: &str = "--sink";
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// A running sink process, killed when dropped.
pub(crate) struct Sink {
    pub(crate) address: SocketAddr,
    process: Child,
}

impl Sink {
    pub(crate) fn start() -> Self {
        let program = std::env::current_exe().expect("this program has a path");
        let mut process = Command::new(program)
            .arg(ARGUMENT)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the sink starts");
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().expect("standard output is piped"))
            .read_line(&mut line)
            .expect("the sink prints its address");
        Self { address: line.trim().parse().expect("an address"), process }
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs the sink. It exits when its standard input closes, so that it cannot outlive the benchmark.
pub(crate) fn serve() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    std::thread::spawn(|| {
        let _ = std::io::stdin().lines().count();
        std::process::exit(0);
    });
    runtime.expect("the runtime starts").block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        println!("{}", listener.local_addr().expect("the listener is bound"));
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve_connection(stream));
        }
    });
}

async fn serve_connection(mut stream: TcpStream) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut buffer = vec![0; 128 * 1024];
    let mut filled = 0;
    loop {
        filled += match stream.read(&mut buffer[filled..]).await.ok()? {
            0 => return None,
            read => read,
        };
        let Some(head) = buffer[..filled].windows(4).position(|window| window == b"\r\n\r\n") else {
            continue;
        };
        let mut missing = (head + 4 + content_length(&buffer[..head])?).saturating_sub(filled);
        while missing > 0 {
            missing -= match stream.read(&mut buffer).await.ok()? {
                0 => return None,
                read => read.min(missing),
            };
        }
        stream.write_all(RESPONSE).await.ok()?;
        filled = 0;
    }
}

fn content_length(head: &[u8]) -> Option<usize> {
    let head = std::str::from_utf8(head).ok()?;
    head.lines().find_map(|line| line.strip_prefix("content-length: "))?.parse().ok()
}
