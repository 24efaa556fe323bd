//! TLS to receivers: the system's authorities and the configured ones, HTTP/2 where the receiver offers it.

use std::io;
use std::path::Path;
use std::sync::Arc;

use posthaste_domain::ErrorClass;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use url::Host;

use crate::failure::Failure;
use crate::meter::Metered;
use crate::options::InvalidOptions;

const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

pub(crate) struct Tls(TlsConnector);

/// What a handshake led to.
pub(crate) struct Secured {
    pub(crate) stream: Box<TlsStream<Metered<TcpStream>>>,
    pub(crate) http2: bool,
}

impl Tls {
    pub(crate) fn new(ca_file: Option<&Path>) -> Result<Self, InvalidOptions> {
        let roots = authorities(ca_file)?;
        if roots.is_empty() {
            tracing::warn!(
                "the system has no certificate authorities, so no https destination can be verified: install the package \
                 ca-certificates, or name a CA file"
            );
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider supports the default versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![HTTP2.to_vec(), HTTP1.to_vec()];
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }

    pub(crate) async fn handshake(
        &self,
        host: &Host<String>,
        stream: Metered<TcpStream>,
    ) -> Result<Secured, Failure> {
        let stream = self.0.connect(server_name(host)?, stream).await.map_err(|error| refusal(&error))?;
        let http2 = stream.get_ref().1.alpn_protocol() == Some(HTTP2);
        Ok(Secured { stream: Box::new(stream), http2 })
    }
}

/// None at all is no error: plain destinations need none, and the others will say what they miss.
pub(crate) fn authorities(ca_file: Option<&Path>) -> Result<RootCertStore, InvalidOptions> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(path) = ca_file {
        let refused = |reason: String| InvalidOptions::Certificates { path: path.to_owned(), reason };
        let before = roots.len();
        for certificate in CertificateDer::pem_file_iter(path).map_err(|error| refused(error.to_string()))? {
            let certificate = certificate.map_err(|error| refused(error.to_string()))?;
            roots.add(certificate).map_err(|error| refused(error.to_string()))?;
        }
        if roots.len() == before {
            return Err(refused("there is no certificate in it".to_owned()));
        }
    }
    Ok(roots)
}

fn server_name(host: &Host<String>) -> Result<ServerName<'static>, Failure> {
    match host {
        Host::Domain(name) => ServerName::try_from(name.clone())
            .map_err(|_| Failure::new(ErrorClass::Tls, format!("no certificate can be issued for {name}"))),
        Host::Ipv4(address) => Ok(ServerName::from(std::net::IpAddr::from(*address))),
        Host::Ipv6(address) => Ok(ServerName::from(std::net::IpAddr::from(*address))),
    }
}

fn refusal(error: &io::Error) -> Failure {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(why)) => {
            Failure::new(ErrorClass::Certificate, format!("the certificate {}", complaint(why)))
        }
        Some(error) => Failure::new(ErrorClass::Tls, error.to_string()),
        None => Failure::new(ErrorClass::Tls, format!("the handshake was broken off: {error}")),
    }
}

fn complaint(why: &CertificateError) -> String {
    match why {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "has expired".to_owned(),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "is not valid yet".to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "is for another host".to_owned()
        }
        CertificateError::UnknownIssuer => "is signed by no authority that is trusted here".to_owned(),
        CertificateError::Revoked => "was revoked".to_owned(),
        other => format!("cannot be accepted: {other}"),
    }
}
