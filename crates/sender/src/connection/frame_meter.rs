//! Counts the header blocks that a receiver sends over HTTP/2.
//!
//! A limit on bytes does not bound memory: HPACK can expand a frame of a few hundred bytes to a thousand headers, and h2
//! keeps the headers of interim responses until they are read. The meter parses only the nine-byte frame headers and
//! decodes no payload.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::receive_budget::ReceiveBudget;
use crate::stream::Stream;

const FRAME_HEADER_BYTES: usize = 9;
const HEADERS: u8 = 0x1;
const PUSH_PROMISE: u8 = 0x5;

/// An HTTP/2 byte stream that charges each received header block to the connection's receive budget.
pub(super) struct FrameMeter {
    stream: Stream,
    budget: Arc<ReceiveBudget>,
    frame_header: [u8; FRAME_HEADER_BYTES],
    header_filled: usize,
    /// Bytes still to come of the payload of the current frame.
    payload_left: usize,
}

impl FrameMeter {
    pub(super) fn new(stream: Stream, budget: Arc<ReceiveBudget>) -> Self {
        Self { stream, budget, frame_header: [0; FRAME_HEADER_BYTES], header_filled: 0, payload_left: 0 }
    }

    /// Follows the frame boundaries through received bytes.
    fn scan(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let skipped = self.payload_left.min(bytes.len());
            self.payload_left -= skipped;
            bytes = &bytes[skipped..];
            let wanted = (FRAME_HEADER_BYTES - self.header_filled).min(bytes.len());
            let (header_part, rest) = bytes.split_at(wanted);
            self.frame_header[self.header_filled..self.header_filled + wanted].copy_from_slice(header_part);
            self.header_filled += wanted;
            bytes = rest;
            if self.header_filled == FRAME_HEADER_BYTES {
                self.start_frame();
            }
        }
    }

    /// Evaluates a complete frame header.
    fn start_frame(&mut self) {
        let [length_high, length_middle, length_low, kind, ..] = self.frame_header;
        self.payload_left =
            usize::from(length_high) << 16 | usize::from(length_middle) << 8 | usize::from(length_low);
        self.header_filled = 0;
        if matches!(kind, HEADERS | PUSH_PROMISE) {
            self.budget.spend_header_block();
        }
    }
}

impl AsyncRead for FrameMeter {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.scan(&buf.filled()[before..]);
        self.budget.check()?;
        read
    }
}

impl AsyncWrite for FrameMeter {
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
