//! TLS to receivers: verifies certificates and negotiates HTTP/2 or HTTP/1.1.

mod roots;

use std::io;
use std::path::Path;
use std::sync::Arc;

use posthaste_domain::ErrorClass;
use rustls::pki_types::ServerName;
use rustls::{CertificateError, ClientConfig, InvalidMessage};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use url::Host;

use crate::failure::Failure;
use crate::options::InvalidOptions;
use crate::receive_budget::BudgetedStream;
use crate::sockets::Socket;

pub use roots::{RootSource, load_root_certificates};

/// ALPN protocol ids.
const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

/// Performs TLS handshakes with receivers.
pub(crate) struct TlsClient(TlsConnector);

/// An encrypted stream after its handshake.
pub(crate) struct TlsConnection {
    pub(crate) stream: Box<TlsStream<BudgetedStream<Socket>>>,
    /// Whether the receiver chose HTTP/2.
    pub(crate) is_http2: bool,
}

impl TlsClient {
    /// Trusts the system's certificate authorities and those in `ca_file`.
    pub(crate) fn new(ca_file: Option<&Path>) -> Result<Self, InvalidOptions> {
        let roots = load_root_certificates(RootSource::system_and(ca_file))?;
        if roots.is_empty() {
            tracing::warn!(
                "the system has no certificate authorities, so no https destination can be verified: install the package \
                 ca-certificates, or set a CA file"
            );
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider supports the default TLS versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }

    pub(crate) async fn handshake(
        &self,
        host: &Host<String>,
        stream: BudgetedStream<Socket>,
    ) -> Result<TlsConnection, Failure> {
        let handshake = self.0.connect(server_name(host)?, stream).await;
        let stream = handshake.map_err(|error| handshake_failure(&error))?;
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(HTTP2);
        Ok(TlsConnection { stream: Box::new(stream), is_http2 })
    }
}

fn server_name(host: &Host<String>) -> Result<ServerName<'static>, Failure> {
    match host {
        Host::Domain(name) => ServerName::try_from(name.clone())
            .map_err(|_| Failure::new(ErrorClass::Tls, format!("no certificate can be issued for {name}"))),
        Host::Ipv4(address) => Ok(ServerName::from(std::net::IpAddr::from(*address))),
        Host::Ipv6(address) => Ok(ServerName::from(std::net::IpAddr::from(*address))),
    }
}

fn handshake_failure(error: &io::Error) -> Failure {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(reason)) => Failure::new(
            ErrorClass::Certificate,
            format!("the receiver's certificate {}", describe_certificate_error(reason)),
        ),
        // The first byte of the response is no TLS record: most likely the status line of an HTTP response.
        Some(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)) => Failure::new(
            ErrorClass::Tls,
            "the receiver's port speaks plain HTTP, not TLS; use http:// or another port",
        ),
        Some(error) => Failure::new(ErrorClass::Tls, error.to_string()),
        None => Failure::new(ErrorClass::Tls, format!("the TLS handshake was interrupted: {error}")),
    }
}

fn describe_certificate_error(error: &CertificateError) -> String {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "has expired".to_owned(),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "is not valid yet".to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "is for another host".to_owned()
        }
        CertificateError::UnknownIssuer => "is not signed by a trusted authority".to_owned(),
        CertificateError::Revoked => "was revoked".to_owned(),
        other => format!("cannot be accepted: {other}"),
    }
}
