//! The receive budget of a connection: limits how much a receiver may send.
//!
//! It counts every byte on the socket, below TLS and HTTP: handshakes, headers, interim responses, chunk framing,
//! trailers, pings. The layers above need no limits of their own against a flood.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that a receiver may send before the first request. The longest handshake needs less.
const HANDSHAKE_BYTES: usize = 128 * 1024;
/// Bytes that a receiver may send per request: a response head, the part of a body that it can send before it learns
/// that the sender stopped reading, and their framing.
pub(crate) const REQUEST_BYTES: usize = 96 * 1024;
/// Bytes that a receiver may send while no request is in flight: pings, settings, session tickets.
const IDLE_BYTES: usize = 16 * 1024;

/// Header blocks that a receiver may send per request over HTTP/2: interim responses, the response and its trailers.
const REQUEST_HEADER_BLOCKS: usize = 16;

/// Error text for a receiver that has exceeded its budget.
pub(crate) const BUDGET_EXCEEDED: &str = "the receiver sends more than any response needs";

/// The bytes and header blocks that a receiver may still send on one connection. An exhausted budget stays exhausted: a
/// new request adds nothing to it, so a flood cannot continue.
#[derive(Debug)]
pub(crate) struct ReceiveBudget(Mutex<Remaining>);

#[derive(Debug)]
struct Remaining {
    bytes: usize,
    header_blocks: usize,
    /// Requests whose responses have not ended, cancelled requests included.
    in_flight: usize,
    /// Whether a request was cancelled. Its response may still arrive, so its share is not taken back. A receiver could
    /// use that share for a flood, so no further request may start.
    has_cancelled: bool,
}

impl ReceiveBudget {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(Remaining {
            bytes: HANDSHAKE_BYTES,
            header_blocks: REQUEST_HEADER_BLOCKS,
            in_flight: 0,
            has_cancelled: false,
        })))
    }

    /// Adds the share of one more request, if fewer than `in_flight_max` are in flight, the budget is not exhausted and
    /// no request was cancelled. Returns whether the request may be sent.
    #[must_use]
    pub(crate) fn try_start_request(&self, in_flight_max: usize) -> bool {
        let mut remaining = self.remaining();
        let has_capacity = remaining.has_capacity(in_flight_max);
        if has_capacity {
            remaining.add_request();
        }
        has_capacity
    }

    /// Returns whether [`try_start_request`](Self::try_start_request) would succeed.
    pub(crate) fn has_capacity(&self, in_flight_max: usize) -> bool {
        self.remaining().has_capacity(in_flight_max)
    }

    /// Starts a request when no other is in flight. The unused rest of the handshake or of the previous response does
    /// not add to its share.
    pub(crate) fn start_sole_request(&self) {
        let mut remaining = self.remaining();
        remaining.in_flight = 0;
        remaining.clamp();
        remaining.add_request();
    }

    /// Removes a request whose response has ended. The unused share of its budget is not saved for later requests.
    pub(crate) fn end_request(&self) {
        let mut remaining = self.remaining();
        remaining.in_flight -= 1;
        remaining.clamp();
    }

    /// Records that an attempt stopped waiting for a response that has not ended.
    pub(crate) fn cancel_request(&self) {
        self.remaining().has_cancelled = true;
    }

    /// Returns whether no request is in flight on the connection.
    pub(crate) fn is_idle(&self) -> bool {
        self.remaining().in_flight == 0
    }

    pub(crate) fn is_exhausted(&self) -> bool {
        self.remaining().is_exhausted()
    }

    /// Charges one received header block.
    pub(crate) fn spend_header_block(&self) {
        let mut remaining = self.remaining();
        remaining.header_blocks = remaining.header_blocks.saturating_sub(1);
    }

    /// Returns the error that ends a connection if the budget is exhausted.
    pub(crate) fn check(&self) -> io::Result<()> {
        if self.is_exhausted() { Err(io::Error::other(BUDGET_EXCEEDED)) } else { Ok(()) }
    }

    fn spend_bytes(&self, bytes: usize) {
        let mut remaining = self.remaining();
        remaining.bytes = remaining.bytes.saturating_sub(bytes);
    }

    fn remaining(&self) -> MutexGuard<'_, Remaining> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Remaining {
    fn is_exhausted(&self) -> bool {
        self.bytes == 0 || self.header_blocks == 0
    }

    fn has_capacity(&self, in_flight_max: usize) -> bool {
        self.in_flight < in_flight_max && !self.has_cancelled && !self.is_exhausted()
    }

    fn add_request(&mut self) {
        self.in_flight += 1;
        if !self.is_exhausted() {
            self.bytes += REQUEST_BYTES;
            self.header_blocks += REQUEST_HEADER_BLOCKS;
        }
    }

    /// Lowers the budget to the shares of the requests in flight, plus the idle allowance.
    fn clamp(&mut self) {
        self.bytes = self.bytes.min(self.in_flight * REQUEST_BYTES + IDLE_BYTES);
        // One header block always remains if any is left; otherwise the next request would find the budget exhausted.
        self.header_blocks = self.header_blocks.min(self.in_flight * REQUEST_HEADER_BLOCKS + 1);
    }
}

/// A stream that fails once its receive budget is exhausted.
#[derive(Debug)]
pub(crate) struct BudgetedStream<S> {
    inner: S,
    budget: Arc<ReceiveBudget>,
}

impl<S> BudgetedStream<S> {
    pub(crate) fn new(inner: S, budget: Arc<ReceiveBudget>) -> Self {
        Self { inner, budget }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for BudgetedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.budget.check()?;
        let before = buf.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(cx, buf);
        self.budget.spend_bytes(buf.filled().len() - before);
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for BudgetedStream<S> {
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
    async fn stream_fails_once_its_budget_is_exhausted_and_stays_failed() {
        let budget = ReceiveBudget::new();
        let mut flood = BudgetedStream::new(tokio::io::repeat(b'x'), Arc::clone(&budget));
        let mut received = Vec::new();
        assert!(flood.read_to_end(&mut received).await.is_err());
        assert!((HANDSHAKE_BYTES..2 * HANDSHAKE_BYTES).contains(&received.len()), "{}", received.len());
        assert!(!budget.try_start_request(1));
        budget.start_sole_request();
        assert!(budget.is_exhausted());
        assert!(flood.read_u8().await.is_err());
    }

    #[test]
    fn unused_share_of_a_request_is_not_saved_for_later() {
        let budget = ReceiveBudget::new();
        budget.start_sole_request();
        budget.end_request();
        for _ in 0..1_000 {
            assert!(budget.try_start_request(1));
            budget.end_request();
        }
        assert_eq!(budget.remaining().bytes, IDLE_BYTES);
        for _ in 0..20 {
            assert!(budget.try_start_request(20));
        }
        budget.end_request();
        assert_eq!(budget.remaining().bytes, 19 * REQUEST_BYTES + IDLE_BYTES);
        assert_eq!(budget.remaining().header_blocks, 19 * REQUEST_HEADER_BLOCKS + 1);
    }

    #[test]
    fn cancelled_request_keeps_its_share_when_other_requests_end() {
        let budget = ReceiveBudget::new();
        budget.start_sole_request();
        for _ in 0..20 {
            assert!(budget.try_start_request(32));
        }
        budget.cancel_request();
        assert!(!budget.try_start_request(32), "no request starts after a cancellation");
        for _ in 0..20 {
            budget.end_request();
        }
        assert_eq!(budget.remaining().bytes, REQUEST_BYTES + IDLE_BYTES);
        assert!(!budget.is_idle());
    }

    #[test]
    fn no_more_requests_start_than_the_limit_allows() {
        let budget = ReceiveBudget::new();
        assert!(budget.try_start_request(2) && budget.try_start_request(2) && !budget.try_start_request(2));
        assert!(budget.try_start_request(3));
        budget.end_request();
        budget.end_request();
        assert!(budget.try_start_request(2) && !budget.try_start_request(2));
    }

    #[test]
    fn request_that_starts_while_another_ends_has_its_own_share() {
        let budget = ReceiveBudget::new();
        std::thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| {
                    for _ in 0..1_000_000 {
                        assert!(budget.try_start_request(2));
                        budget.spend_header_block();
                        assert!(!budget.is_exhausted(), "a request found its own share spent");
                        budget.end_request();
                    }
                });
            }
        });
    }
}
