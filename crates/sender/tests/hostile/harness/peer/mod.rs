//! The receiver's side of one connection: plays a script and reads requests.

mod http1;
mod http2;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::harness::frames::settings;
use crate::harness::receiver::ReceiverLog;
use crate::harness::script::Step;
use crate::harness::socket::Socket;

const DRIP_INTERVAL: Duration = Duration::from_millis(150);

/// A receiver's end of one connection.
pub(crate) struct Peer {
    socket: Socket,
    protocol: Protocol,
    log: Arc<ReceiverLog>,
    /// HTTP/2 only: whether the client's connection preface was read.
    preface_read: bool,
    /// HTTP/2 only: the stream of the latest request.
    stream: u32,
}

/// The HTTP version of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

impl Peer {
    pub(crate) fn new(socket: Socket, protocol: Protocol, log: Arc<ReceiverLog>) -> Self {
        Self { socket, protocol, log, preface_read: false, stream: 0 }
    }

    /// Plays a script. An I/O error means that the sender closed the connection, which ends any script.
    pub(crate) async fn play(mut self, steps: &[Step]) -> io::Result<()> {
        for step in steps {
            match step {
                Step::Read => self.read_request(Part::Whole).await?,
                Step::ReadSome => drop(self.socket.read(&mut [0]).await?),
                Step::ReadHead => self.read_request(Part::Head).await?,
                Step::Write(bytes) => self.socket.write(bytes).await?,
                Step::WriteRaw(bytes) => self.socket.write_raw(bytes).await?,
                Step::Drip(bytes) => self.drip(bytes).await?,
                Step::Flood(bytes) => loop {
                    self.socket.write(bytes).await?;
                },
                Step::Wait => self.log.continue_signal.notified().await,
                Step::Serve => {
                    self.log.record_script_played();
                    return self.serve().await;
                }
                Step::Silence => {
                    self.log.record_script_played();
                    return self.drain().await;
                }
                Step::Freeze => std::future::pending().await,
                Step::Close => {
                    self.socket.close().await?;
                    self.log.record_script_played();
                    return self.drain().await;
                }
                Step::CloseTcp => {
                    self.socket.close_tcp().await?;
                    self.log.record_script_played();
                    return self.drain().await;
                }
                Step::Reset => return self.socket.reset(),
            }
        }
        Ok(())
    }

    /// Responds to every request with its number, so that a test can tell responses apart.
    pub(crate) async fn serve(&mut self) -> io::Result<()> {
        if self.protocol == Protocol::Http2 {
            self.socket.write(&settings(&[])).await?;
        }
        loop {
            self.read_request(Part::Whole).await?;
            let body = format!("response to request {}", self.log.requests());
            match self.protocol {
                Protocol::Http1 => self.respond_http1(&body).await?,
                Protocol::Http2 => self.respond_http2(&body).await?,
            }
        }
    }

    async fn read_request(&mut self, part: Part) -> io::Result<()> {
        match self.protocol {
            Protocol::Http1 => self.read_http1(part).await,
            Protocol::Http2 => self.read_http2(part).await,
        }
    }

    async fn drip(&mut self, bytes: &[u8]) -> io::Result<()> {
        for byte in bytes.chunks(1) {
            self.socket.write(byte).await?;
            crate::harness::time::wait(DRIP_INTERVAL).await;
        }
        Ok(())
    }

    async fn drain(&mut self) -> io::Result<()> {
        let mut buffer = [0; 4_096];
        while self.socket.read(&mut buffer).await? > 0 {}
        Ok(())
    }

    async fn read_exact(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.socket.read(&mut buffer[filled..]).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => filled += read,
            }
        }
        Ok(())
    }
}

/// The part of a request to read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Head,
    Whole,
}
