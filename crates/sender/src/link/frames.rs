//! Counts what HTTP/2 makes much of little: a frame of a few hundred bytes can name a thousand headers, and those of
//! interim responses are kept until somebody looks. Frames are told apart by their first nine bytes; nothing is decoded.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::meter::Meter;
use crate::stream::Stream;

const FRAME_HEAD_BYTES: usize = 9;
const HEADERS: u8 = 0x1;
const PUSH_PROMISE: u8 = 0x5;

/// A connection whose blocks of headers are metered.
pub(super) struct Frames {
    stream: Stream,
    meter: Arc<Meter>,
    head: [u8; FRAME_HEAD_BYTES],
    head_filled: usize,
    /// Of the frame whose head was seen last.
    payload_left: usize,
}

impl Frames {
    pub(super) fn of(stream: Stream, meter: Arc<Meter>) -> Self {
        Self { stream, meter, head: [0; FRAME_HEAD_BYTES], head_filled: 0, payload_left: 0 }
    }

    fn look_at(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let skipped = self.payload_left.min(bytes.len());
            self.payload_left -= skipped;
            bytes = &bytes[skipped..];
            let wanted = (FRAME_HEAD_BYTES - self.head_filled).min(bytes.len());
            let (of_head, rest) = bytes.split_at(wanted);
            self.head[self.head_filled..self.head_filled + wanted].copy_from_slice(of_head);
            self.head_filled += wanted;
            bytes = rest;
            if self.head_filled == FRAME_HEAD_BYTES {
                self.begin_frame();
            }
        }
    }

    fn begin_frame(&mut self) {
        let [length_high, length_middle, length_low, kind, ..] = self.head;
        self.payload_left =
            usize::from(length_high) << 16 | usize::from(length_middle) << 8 | usize::from(length_low);
        self.head_filled = 0;
        if matches!(kind, HEADERS | PUSH_PROMISE) {
            self.meter.spend_head();
        }
    }
}

impl AsyncRead for Frames {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        self.look_at(&buf.filled()[before..]);
        self.meter.check()?;
        read
    }
}

impl AsyncWrite for Frames {
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
