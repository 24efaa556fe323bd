//! How much a receiver may send us, whatever it is: interim responses, headers, chunk framing, trailers, pings,
//! handshakes. Counted on the socket, below TLS and HTTP, so that no layer above needs a bound of its own.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What a receiver may send before the first request: the longest handshake, with room to spare.
const OPENING_BYTES: usize = 128 * 1024;
/// What each request entitles it to: a head, as much of a body as it may send before it hears that we have read enough,
/// and their framing.
pub(crate) const GRANT_BYTES: usize = 96 * 1024;
/// What it may send while no request waits for an answer: pings, settings, session tickets.
const IDLE_BYTES: usize = 16 * 1024;

/// Blocks of headers that a request entitles it to over HTTP/2: interim responses, the answer and its trailers.
const GRANT_HEADS: usize = 16;

/// What an operator reads of a receiver that goes on regardless.
pub(crate) const BREACH: &str = "the receiver sends more than any answer needs";

/// What one connection may still send. Once it is over, it is over: another request must not revive a flood.
#[derive(Debug)]
pub(crate) struct Meter(Mutex<Left>);

#[derive(Debug)]
struct Left {
    bytes: usize,
    heads: usize,
    /// Requests whose answers have not ended.
    waiting: usize,
    /// Whether one of them was given up. Its answer may still be on its way, so that its share is not taken back; and as
    /// it would be there for a flood, no other request is granted one.
    given_up: bool,
}

impl Meter {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(Left {
            bytes: OPENING_BYTES,
            heads: GRANT_HEADS,
            waiting: 0,
            given_up: false,
        })))
    }

    /// A request is about to be sent, unless so many wait already, or nothing more shall be sent at all.
    #[must_use]
    pub(crate) fn grant(&self, waiting_max: usize) -> bool {
        let mut left = self.left();
        let granted = left.has_room(waiting_max);
        if granted {
            left.grant();
        }
        granted
    }

    /// Whether a request would be granted its share.
    pub(crate) fn has_room(&self, waiting_max: usize) -> bool {
        self.left().has_room(waiting_max)
    }

    /// A request is about to be sent, and no other waits: what the handshakes left, or the answer before, is not for
    /// this one's.
    pub(crate) fn grant_alone(&self) {
        let mut left = self.left();
        left.waiting = 0;
        left.clip();
        left.grant();
    }

    /// The answer to a request has ended. What it did not use cannot be saved up.
    pub(crate) fn revoke(&self) {
        let mut left = self.left();
        left.waiting -= 1;
        left.clip();
    }

    /// Nobody waits for the answer to a request any more, although it has not ended.
    pub(crate) fn give_up(&self) {
        self.left().given_up = true;
    }

    pub(crate) fn is_unused(&self) -> bool {
        self.left().waiting == 0
    }

    pub(crate) fn is_exhausted(&self) -> bool {
        self.left().is_exhausted()
    }

    /// A block of headers begins.
    pub(crate) fn spend_head(&self) {
        let mut left = self.left();
        left.heads = left.heads.saturating_sub(1);
    }

    /// What a connection fails with that is read on when its meter has run out.
    pub(crate) fn check(&self) -> io::Result<()> {
        if self.is_exhausted() { Err(io::Error::other(BREACH)) } else { Ok(()) }
    }

    fn spend(&self, bytes: usize) {
        let mut left = self.left();
        left.bytes = left.bytes.saturating_sub(bytes);
    }

    fn left(&self) -> MutexGuard<'_, Left> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Left {
    fn is_exhausted(&self) -> bool {
        self.bytes == 0 || self.heads == 0
    }

    fn has_room(&self, waiting_max: usize) -> bool {
        self.waiting < waiting_max && !self.given_up && !self.is_exhausted()
    }

    fn grant(&mut self) {
        self.waiting += 1;
        if !self.is_exhausted() {
            self.bytes += GRANT_BYTES;
            self.heads += GRANT_HEADS;
        }
    }

    /// Down to what those that wait are entitled to.
    fn clip(&mut self) {
        self.bytes = self.bytes.min(self.waiting * GRANT_BYTES + IDLE_BYTES);
        // One is left of what is not spent, or the next request would come to a meter that has run out.
        self.heads = self.heads.min(self.waiting * GRANT_HEADS + 1);
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
        self.meter.check()?;
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
        assert!(!meter.grant(1));
        meter.grant_alone();
        assert!(meter.is_exhausted());
        assert!(flood.read_u8().await.is_err());
    }

    #[test]
    fn what_one_request_did_not_use_is_not_saved_up_for_a_flood() {
        let meter = Meter::new();
        meter.grant_alone();
        meter.revoke();
        for _ in 0..1_000 {
            assert!(meter.grant(1));
            meter.revoke();
        }
        assert_eq!(meter.left().bytes, IDLE_BYTES);
        for _ in 0..20 {
            assert!(meter.grant(20));
        }
        meter.revoke();
        assert_eq!(meter.left().bytes, 19 * GRANT_BYTES + IDLE_BYTES);
        assert_eq!(meter.left().heads, 19 * GRANT_HEADS + 1);
    }

    #[test]
    fn an_answer_that_was_given_up_keeps_its_share_when_others_end() {
        let meter = Meter::new();
        meter.grant_alone();
        for _ in 0..20 {
            assert!(meter.grant(32));
        }
        meter.give_up();
        assert!(!meter.grant(32), "what is not taken back is not added to");
        for _ in 0..20 {
            meter.revoke();
        }
        assert_eq!(meter.left().bytes, GRANT_BYTES + IDLE_BYTES);
        assert!(!meter.is_unused());
    }

    #[test]
    fn no_more_requests_are_granted_than_there_is_room_for() {
        let meter = Meter::new();
        assert!(meter.grant(2) && meter.grant(2) && !meter.grant(2));
        assert!(meter.grant(3));
        meter.revoke();
        meter.revoke();
        assert!(meter.grant(2) && !meter.grant(2));
    }

    #[test]
    fn a_request_that_begins_in_the_very_moment_in_which_another_ends_has_its_own_share() {
        let meter = Meter::new();
        std::thread::scope(|threads| {
            for _ in 0..2 {
                threads.spawn(|| {
                    for _ in 0..1_000_000 {
                        assert!(meter.grant(2));
                        meter.spend_head();
                        assert!(!meter.is_exhausted(), "its own answer was one too many");
                        meter.revoke();
                    }
                });
            }
        });
    }
}
