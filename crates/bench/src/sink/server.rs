//! The sink process: receives requests and responds as their path says.
//!
//! It runs on one thread and parses only what it counts, so that it costs little beside the sender that is measured.

use std::cell::RefCell;
use std::io::{BufRead as _, Write as _};
use std::net::Ipv4Addr;
use std::rc::Rc;

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::LocalSet;

use crate::clock::unix_micros;
use crate::sink::Command;
use crate::sink::delay::DelayThread;
use crate::sink::request::{Behaviour, parse_head};
use crate::sink::statistics::Statistics;

const ACCEPTED: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
const FAILED: &[u8] = b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 2\r\n\r\nno";
const READ_BYTES: usize = 4096;
/// How many ports are tried: another process may use a port on one of the addresses.
const PORTS_TRIED_MAX: usize = 20;

type SharedStatistics = Rc<RefCell<Statistics>>;

/// Runs the sink. It prints its port and exits when its standard input closes, so that it cannot
/// outlive the benchmark.
pub(crate) fn run() {
    let (sender, commands) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let _ = sender.send(Command::parse(&line));
        }
        std::process::exit(0);
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("the runtime can be built");
    LocalSet::new().block_on(&runtime, serve(super::HOSTS_MAX, commands));
}

async fn serve(hosts: usize, mut commands: mpsc::UnboundedReceiver<Command>) {
    let statistics = SharedStatistics::default();
    let delays = DelayThread::start();
    let listeners = bind(hosts).await;
    let port = listeners[0].local_addr().expect("the listener is bound").port();
    for listener in listeners {
        let (statistics, delays) = (Rc::clone(&statistics), delays.clone());
        tokio::task::spawn_local(async move {
            loop {
                // An error is a connection that the client closed early, or a lack of files: the client notices both.
                let Ok((stream, _)) = listener.accept().await else { continue };
                statistics.borrow_mut().connections += 1;
                tokio::task::spawn_local(serve_connection(stream, Rc::clone(&statistics), delays.clone()));
            }
        });
    }
    respond(&port.to_string());
    while let Some(command) = commands.recv().await {
        match command {
            Command::Count(group) => respond(&statistics.borrow().events(&group).to_string()),
            Command::Report => {
                let report = statistics.borrow().report();
                respond(&serde_json::to_string(&report).expect("a report is valid JSON"));
            }
            Command::Reset => {
                statistics.borrow_mut().reset();
                respond("reset");
            }
        }
    }
}

/// Writes one line to the benchmark.
fn respond(line: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
}

/// Binds the same port on 127.0.0.1 and on the addresses of the first hosts.
async fn bind(hosts: usize) -> Vec<TcpListener> {
    for _ in 0..PORTS_TRIED_MAX {
        let first = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("loopback has a free port");
        let port = first.local_addr().expect("the listener is bound").port();
        let mut listeners = vec![first];
        for host in 0..hosts {
            let Ok(listener) = TcpListener::bind((super::host_address(host), port)).await else { break };
            listeners.push(listener);
        }
        if listeners.len() == hosts + 1 {
            return listeners;
        }
    }
    panic!(
        "no port is free on {hosts} loopback addresses (127.1.0.1 and following), which Linux has by default"
    );
}

/// Serves the requests of one connection until the client closes it. `None` if it broke.
async fn serve_connection(
    mut stream: TcpStream,
    statistics: SharedStatistics,
    delays: DelayThread,
) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut buffer = BytesMut::with_capacity(READ_BYTES);
    loop {
        let (behaviour, request_bytes) = loop {
            if let Some(head) = parse_head(&buffer) {
                let head = head.ok()?;
                let request_bytes = head.head_bytes + head.body_bytes;
                if let Some(body) = buffer.get(head.head_bytes..request_bytes) {
                    statistics.borrow_mut().record(&head, body, unix_micros());
                    break (head.behaviour, request_bytes);
                }
                buffer.reserve(request_bytes - buffer.len());
            }
            read(&mut stream, &mut buffer).await?;
        };
        buffer.advance(request_bytes);
        let response = match behaviour {
            Behaviour::Accept => ACCEPTED,
            Behaviour::Delay(delay) => {
                delays.wait(delay).await;
                ACCEPTED
            }
            Behaviour::Fail => FAILED,
            Behaviour::Hang => loop {
                read(&mut stream, &mut buffer).await?;
            },
        };
        stream.write_all(response).await.ok()?;
    }
}

/// Reads some bytes; `None` if the client closed the connection.
async fn read(stream: &mut TcpStream, buffer: &mut BytesMut) -> Option<()> {
    buffer.reserve(READ_BYTES);
    (stream.read_buf(buffer).await.ok()? > 0).then_some(())
}
