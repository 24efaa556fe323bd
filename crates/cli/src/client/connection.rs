//! A connection to the server: plain, or TLS under the authorities that the system trusts.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use url::Host;

use super::{ClientError, Server};

pub(super) type Connection = SendRequest<Full<Bytes>>;

trait Wire: AsyncRead + AsyncWrite + Unpin + Send {}

impl<W: AsyncRead + AsyncWrite + Unpin + Send> Wire for W {}

/// What it takes to connect, made once.
pub(super) struct Dialer {
    tls: Option<TlsConnector>,
}

impl Dialer {
    pub(super) fn to(server: &Server) -> Self {
        Self { tls: server.is_tls().then(tls) }
    }

    pub(super) async fn connect(&self, server: &Server) -> Result<Connection, ClientError> {
        let unreachable = |reason: String| ClientError::Unreachable(server.to_string(), reason);
        let stream = dial(server).await.map_err(|error| unreachable(in_words(&error)))?;
        let wire: Box<dyn Wire> = match &self.tls {
            None => Box::new(stream),
            Some(tls) => {
                let secured = tls.connect(name(server)?, stream).await;
                let insecure =
                    |error: io::Error| ClientError::Insecure(server.to_string(), error.to_string());
                Box::new(secured.map_err(insecure)?)
            }
        };
        let shaken = handshake(TokioIo::new(wire)).await;
        let (connection, driver) = shaken.map_err(|error| unreachable(error.to_string()))?;
        // Its errors reach whoever waits for an answer.
        tokio::spawn(driver);
        Ok(connection)
    }
}

async fn dial(server: &Server) -> io::Result<TcpStream> {
    let port = server.port();
    let stream = match server.host() {
        Host::Domain(name) => TcpStream::connect((name, port)).await,
        Host::Ipv4(ip) => TcpStream::connect((ip, port)).await,
        Host::Ipv6(ip) => TcpStream::connect((ip, port)).await,
    }?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// What went wrong, without the number that the system has for it.
fn in_words(error: &io::Error) -> String {
    if error.raw_os_error().is_some() { error.kind().to_string() } else { error.to_string() }
}

fn name(server: &Server) -> Result<ServerName<'static>, ClientError> {
    Ok(match server.host() {
        Host::Domain(name) => ServerName::try_from(name.to_owned())
            .map_err(|error| ClientError::Server(server.to_string(), error.to_string()))?,
        Host::Ipv4(ip) => ServerName::from(std::net::IpAddr::from(ip)),
        Host::Ipv6(ip) => ServerName::from(std::net::IpAddr::from(ip)),
    })
}

fn tls() -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider supports the default versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}
