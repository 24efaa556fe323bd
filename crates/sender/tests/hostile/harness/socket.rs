//! The receiver's end of a connection, with or without TLS.

use std::io;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

pub(crate) enum Socket {
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Socket {
    pub(crate) async fn accept_tls(stream: TcpStream, acceptor: &TlsAcceptor) -> io::Result<Self> {
        Ok(Self::Tls(Box::new(acceptor.accept(stream).await?)))
    }

    /// Reads available bytes. Returns 0 when the sender has closed its side.
    pub(crate) async fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer).await,
            Self::Tls(stream) => stream.read(buffer).await,
        }
    }

    pub(crate) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.write_all(bytes).await,
            Self::Tls(stream) => {
                stream.write_all(bytes).await?;
                stream.flush().await
            }
        }
    }

    /// Writes to the TCP socket, bypassing TLS.
    pub(crate) async fn write_raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.tcp().write_all(bytes).await
    }

    /// Closes the connection properly, over TLS with `close_notify`.
    pub(crate) async fn close(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown().await,
            Self::Tls(stream) => stream.shutdown().await,
        }
    }

    /// Closes the TCP connection without TLS's `close_notify`.
    pub(crate) async fn close_tcp(&mut self) -> io::Result<()> {
        self.tcp().shutdown().await
    }

    /// Closes the connection with a TCP reset.
    pub(crate) fn reset(mut self) -> io::Result<()> {
        self.tcp().set_zero_linger()
    }

    fn tcp(&mut self) -> &mut TcpStream {
        match self {
            Self::Tcp(stream) => stream,
            Self::Tls(stream) => stream.get_mut().0,
        }
    }
}
