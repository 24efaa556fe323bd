//! The sockets of the sender: their number is limited, so that the rest of the process keeps file descriptors.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use posthaste_engine::LocalShortage;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::pool::Pool;

/// The number of sockets that the sender may still open. Pooled connections count; the longest idle one is closed when
/// its socket is needed.
pub(crate) struct SocketBudget {
    permits: Arc<Semaphore>,
    max: usize,
    pool: Arc<Pool>,
}

/// Permission to have a number of sockets open. Dropping it returns them to the budget.
#[derive(Debug)]
pub(crate) struct SocketPermit {
    _permit: OwnedSemaphorePermit,
}

/// An open TCP socket that counts towards the budget.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: TcpStream,
    _permit: SocketPermit,
}

impl SocketBudget {
    /// Creates a budget of `max` sockets. Without a number, only the operating system limits them.
    pub(crate) fn new(max: Option<usize>, pool: Arc<Pool>) -> Self {
        let max = max.unwrap_or(Semaphore::MAX_PERMITS).min(Semaphore::MAX_PERMITS);
        Self { permits: Arc::new(Semaphore::new(max)), max, pool }
    }

    /// Reserves sockets, or as many as the whole budget has. Never waits: a request that waited for a socket would hold
    /// its slot meanwhile.
    pub(crate) fn reserve(&self, sockets: usize) -> Result<SocketPermit, LocalShortage> {
        let sockets = u32::try_from(sockets.min(self.max.max(1))).unwrap_or(u32::MAX);
        loop {
            match Arc::clone(&self.permits).try_acquire_many_owned(sockets) {
                Ok(permit) => return Ok(SocketPermit { _permit: permit }),
                Err(_) if self.pool.close_longest_idle() => {}
                Err(_) => return Err(LocalShortage::OpenFiles),
            }
        }
    }
}

impl Socket {
    pub(crate) fn new(stream: TcpStream, permit: SocketPermit) -> Self {
        Self { stream, _permit: permit }
    }

    #[cfg(test)]
    pub(crate) fn peer_addr(&self) -> io::Result<std::net::SocketAddr> {
        self.stream.peer_addr()
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
