//! A receiver on one connection: it plays its script, and reads requests where the script says so.

mod http1;
mod http2;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::stage::frames::settings;
use crate::stage::receiver::Seen;
use crate::stage::script::Step;
use crate::stage::socket::Socket;

const DRIP_INTERVAL: Duration = Duration::from_millis(150);

pub(crate) struct Peer {
    socket: Socket,
    protocol: Protocol,
    seen: Arc<Seen>,
    /// HTTP/2 only: whether the client's opening words were read, and the stream of the latest request.
    greeted: bool,
    stream: u32,
}

/// What requests are read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

impl Peer {
    pub(crate) fn new(socket: Socket, protocol: Protocol, seen: Arc<Seen>) -> Self {
        Self { socket, protocol, seen, greeted: false, stream: 0 }
    }

    /// An error is the sender's goodbye, which ends any script.
    pub(crate) async fn play(mut self, steps: &[Step]) -> io::Result<()> {
        for step in steps {
            match step {
                Step::Read => self.read_request(Part::Whole).await?,
                Step::ReadSome => drop(self.socket.read(&mut [0]).await?),
                Step::ReadHead => self.read_request(Part::Head).await?,
                Step::Write(bytes) => self.socket.write(bytes).await?,
                Step::WriteBeneathTls(bytes) => self.socket.write_beneath_tls(bytes).await?,
                Step::Drip(bytes) => self.drip(bytes).await?,
                Step::Flood(bytes) => loop {
                    self.socket.write(bytes).await?;
                },
                Step::Wait => self.seen.signal.notified().await,
                Step::Serve => return self.serve().await,
                Step::Silence => return self.drain().await,
                Step::Freeze => std::future::pending().await,
                Step::Close => {
                    self.socket.close().await?;
                    return self.drain().await;
                }
                Step::Cut => {
                    self.socket.cut().await?;
                    return self.drain().await;
                }
                Step::Reset => return self.socket.reset(),
            }
        }
        Ok(())
    }

    /// Answers every request, each with its number, so that nobody can mistake one answer for another.
    pub(crate) async fn serve(&mut self) -> io::Result<()> {
        if self.protocol == Protocol::Http2 {
            self.socket.write(&settings(&[])).await?;
        }
        loop {
            self.read_request(Part::Whole).await?;
            let answer = format!("answer to request {}", self.seen.requests());
            match self.protocol {
                Protocol::Http1 => self.answer_http1(&answer).await?,
                Protocol::Http2 => self.answer_http2(&answer).await?,
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
            crate::stage::time::wait(DRIP_INTERVAL).await;
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

/// How much of a request is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Head,
    Whole,
}
