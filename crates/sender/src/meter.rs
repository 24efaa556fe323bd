//! How much a receiver may send us, whatever it is: interim responses, headers, chunk framing, trailers, pings,
//! handshakes. Counted on the socket, below TLS and HTTP, so that no layer above needs a bound of its own.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What each request entitles a receiver to send: a head, a body as far as it is read, and their framing. A new
/// connection has it once more, for its handshakes.
const GRANT_BYTES: usize = 128 * 1024;
/// Grants that are saved up: requests share an HTTP/2 connection, and their answers may arrive together.
const GRANTED_BYTES_MAX: usize = 32 * GRANT_BYTES;

/// What one connection may still send.
#[derive(Debug)]
pub(crate) struct Meter(AtomicUsize);

impl Meter {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicUsize::new(GRANT_BYTES)))
    }

    /// A request is about to be sent on the connection.
    pub(crate) fn grant(&self) {
        let saved_up = |left: usize| Some((left + GRANT_BYTES).min(GRANTED_BYTES_MAX));
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, saved_up);
    }

    pub(crate) fn is_exhausted(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    fn spend(&self, bytes: usize) {
        let spent = |left: usize| Some(left.saturating_sub(bytes));
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spent);
    }
}

/// A connection that breaks off when its meter has run out.
#[derive(Debug)]
pub(crate) struct Metered<S> {
    inner: S,
    meter: Arc<Meter>,
}

impl<S> Metered<S> {
    pub(crate) fn new(inner: S, meter: Arc<Meter>) -> Self {
        Self { inner, meter }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.meter.is_exhausted() {
            return Poll::Ready(Err(io::Error::other("the receiver sends more than any answer needs")));
        }
        let before = buf.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(cx, buf);
        self.meter.spend(buf.filled().len() - before);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt as _;

    #[tokio::test]
    async fn a_connection_breaks_off_when_it_has_sent_more_than_was_granted() {
        let meter = Meter::new();
        let mut flood = Metered::new(tokio::io::repeat(b'x'), Arc::clone(&meter));
        let mut received = Vec::new();
        assert!(flood.read_to_end(&mut received).await.is_err());
        assert!(meter.is_exhausted());
        assert!((GRANT_BYTES..2 * GRANT_BYTES).contains(&received.len()), "{}", received.len());
    }

    #[test]
    fn grants_add_up_to_a_limit() {
        let meter = Meter::new();
        for _ in 0..1_000 {
            meter.grant();
        }
        assert_eq!(meter.0.load(Ordering::Relaxed), GRANTED_BYTES_MAX);
    }
}
