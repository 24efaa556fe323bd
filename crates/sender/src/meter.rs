//! How much a receiver may send us, whatever it is: interim responses, headers, chunk framing, trailers, pings,
//! handshakes. Counted on the socket, below TLS and HTTP, so that no layer above needs a bound of its own.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What a receiver may send before the first request: the longest handshake, with room to spare.
const OPENING_BYTES: usize = 128 * 1024;
/// What each request entitles it to: a head, a body as far as it is read, and their framing.
const GRANT_BYTES: usize = 64 * 1024;
/// What it may send while no request waits for an answer: pings, settings, session tickets.
const IDLE_BYTES: usize = 16 * 1024;

/// Blocks of headers that a request entitles it to over HTTP/2: interim responses, the answer and its trailers.
const GRANT_HEADS: usize = 16;

/// What one connection may still send.
#[derive(Debug)]
pub(crate) struct Meter {
    bytes: AtomicUsize,
    heads: AtomicUsize,
}

impl Meter {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { bytes: AtomicUsize::new(OPENING_BYTES), heads: AtomicUsize::new(GRANT_HEADS) })
    }

    /// A request is about to be sent.
    pub(crate) fn grant(&self) {
        change(&self.bytes, |left| left.saturating_add(GRANT_BYTES));
        change(&self.heads, |left| left.saturating_add(GRANT_HEADS));
    }

    /// A request has its answer, or is given up. What it did not use cannot be saved up: so much is left for those that
    /// still wait.
    pub(crate) fn revoke(&self, still_waiting: usize) {
        change(&self.bytes, |left| {
            left.min(still_waiting.saturating_mul(GRANT_BYTES).saturating_add(IDLE_BYTES))
        });
        // One is left of what is not spent, or the next request would come to a meter that has run out.
        change(&self.heads, |left| left.min(still_waiting.saturating_mul(GRANT_HEADS).saturating_add(1)));
    }

    pub(crate) fn is_exhausted(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) == 0 || self.heads.load(Ordering::Relaxed) == 0
    }

    /// A block of headers begins.
    pub(crate) fn spend_head(&self) {
        change(&self.heads, |left| left - 1);
    }

    /// What a connection fails with that is read on when its meter has run out.
    pub(crate) fn breach(&self) -> io::Error {
        io::Error::other(BREACH)
    }

    fn spend(&self, bytes: usize) {
        change(&self.bytes, |left| left.saturating_sub(bytes));
    }
}

/// What an operator reads of it.
pub(crate) const BREACH: &str = "the receiver sends more than any answer needs";

/// Once it is over, it is over: another request must not revive a flood.
fn change(left: &AtomicUsize, change: impl Fn(usize) -> usize) {
    let changed = |left: usize| if left == 0 { None } else { Some(change(left)) };
    let _ = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, changed);
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
            return Poll::Ready(Err(self.meter.breach()));
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
    async fn a_connection_breaks_off_when_it_has_sent_more_than_was_granted_and_stays_so() {
        let meter = Meter::new();
        let mut flood = Metered::new(tokio::io::repeat(b'x'), Arc::clone(&meter));
        let mut received = Vec::new();
        assert!(flood.read_to_end(&mut received).await.is_err());
        assert!((OPENING_BYTES..2 * OPENING_BYTES).contains(&received.len()), "{}", received.len());
        meter.grant();
        assert!(meter.is_exhausted());
        assert!(flood.read_u8().await.is_err());
    }

    #[test]
    fn what_one_request_did_not_use_is_not_saved_up_for_a_flood() {
        let meter = Meter::new();
        for _ in 0..1_000 {
            meter.grant();
            meter.revoke(0);
        }
        assert_eq!(meter.bytes.load(Ordering::Relaxed), IDLE_BYTES);
        for _ in 0..20 {
            meter.grant();
        }
        meter.revoke(19);
        assert_eq!(meter.bytes.load(Ordering::Relaxed), 19 * GRANT_BYTES + IDLE_BYTES);
    }
}
