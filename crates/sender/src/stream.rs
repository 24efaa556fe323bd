//! The byte stream of a connection, plain or encrypted, as one type.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::client::TlsStream;

use crate::receive_budget::BudgetedStream;
use crate::sockets::Socket;

/// The stream under HTTP: TCP or TLS over TCP. A receive budget limits what is read from the socket.
#[derive(Debug)]
pub(crate) enum Stream {
    Plain(BudgetedStream<Socket>),
    Tls(Box<TlsStream<BudgetedStream<Socket>>>),
    /// A stream without a socket, for tests under paused time.
    #[cfg(test)]
    Memory(tokio::io::DuplexStream),
}

/// Calls a method on the stream of the current variant.
macro_rules! delegate {
    ($stream:expr, $inner:ident => $call:expr) => {
        match $stream {
            Stream::Plain($inner) => $call,
            Stream::Tls($inner) => $call,
            #[cfg(test)]
            Stream::Memory($inner) => $call,
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        delegate!(self.get_mut(), inner => Pin::new(inner).poll_read(cx, buf))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        delegate!(self.get_mut(), inner => Pin::new(inner).poll_write(cx, buf))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self.get_mut(), inner => Pin::new(inner).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        delegate!(self.get_mut(), inner => Pin::new(inner).poll_shutdown(cx))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        delegate!(self.get_mut(), inner => Pin::new(inner).poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        delegate!(self, inner => inner.is_write_vectored())
    }
}
