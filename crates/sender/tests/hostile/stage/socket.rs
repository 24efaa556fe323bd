//! A receiver's end of a connection, with or without TLS.

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
    pub(crate) async fn secured(stream: TcpStream, acceptor: &TlsAcceptor) -> io::Result<Self> {
        Ok(Self::Tls(Box::new(acceptor.accept(stream).await?)))
    }

    /// Nothing read is the end of what the sender says.
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

    pub(crate) async fn write_beneath_tls(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.tcp().write_all(bytes).await
    }

    /// By the rules: with TLS's goodbye where there is TLS.
    pub(crate) async fn close(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown().await,
            Self::Tls(stream) => stream.shutdown().await,
        }
    }

    pub(crate) async fn cut(&mut self) -> io::Result<()> {
        self.tcp().shutdown().await
    }

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
