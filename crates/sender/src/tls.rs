//! TLS to receivers: the system's authorities and the configured ones, HTTP/2 where the receiver offers it.

use std::io;
use std::path::Path;
use std::sync::Arc;

use posthaste_domain::ErrorClass;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, RootCertStore};
use rustls_native_certs::CertificateResult;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use url::Host;

use crate::failure::Failure;
use crate::meter::Metered;
use crate::options::InvalidOptions;

const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";
/// Files named in a warning; one that cannot be read is rarely alone.
const UNREAD_SHOWN_MAX: usize = 3;

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
    let configured = ca_file.map(of_file).transpose()?;
    let mut roots = of_system(rustls_native_certs::load_native_certs());
    roots.extend(configured.into_iter().flat_map(|configured| configured.roots));
    Ok(roots)
}

/// One at least.
pub(crate) fn of_file(path: &Path) -> Result<RootCertStore, InvalidOptions> {
    let refused = |reason: String| InvalidOptions::Certificates { path: path.to_owned(), reason };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| refused(error.to_string()))? {
        let certificate = certificate.map_err(|error| refused(error.to_string()))?;
        roots.add(certificate).map_err(|error| refused(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(refused("there is no certificate in it".to_owned()));
    }
    Ok(roots)
}

fn of_system(loaded: CertificateResult) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(loaded.certs);
    if !loaded.errors.is_empty() {
        let shown = loaded.errors.iter().take(UNREAD_SHOWN_MAX).map(ToString::to_string);
        tracing::warn!(
            unread = loaded.errors.len(),
            first = shown.collect::<Vec<_>>().join("; "),
            trusted = roots.len(),
            "not all of the system's certificate authorities can be read; receivers that only they vouch for are refused"
        );
    }
    roots
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

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use rustls_native_certs::load_certs_from_paths;

    use super::*;

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// How many authorities are left, and what is logged.
    fn left(loaded: CertificateResult) -> (usize, String) {
        let log = Log::default();
        let writer = log.clone();
        let subscriber =
            tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        let roots = tracing::subscriber::with_default(subscriber, || of_system(loaded));
        let logged = log.0.lock().unwrap().clone();
        (roots.len(), String::from_utf8(logged).unwrap())
    }

    #[test]
    fn authorities_that_cannot_be_read_are_named_once_though_others_can() {
        let directory = tempfile::tempdir().unwrap();
        let certificate = rcgen::generate_simple_self_signed(["authority.example".to_owned()]).unwrap();
        std::fs::write(directory.path().join("good.pem"), certificate.cert.pem()).unwrap();
        let missing = directory.path().join("missing.pem");
        assert_eq!(left(load_certs_from_paths(None, Some(directory.path()))), (1, String::new()));

        let (count, logged) = left(load_certs_from_paths(Some(&missing), Some(directory.path())));
        assert_eq!((count, logged.lines().count()), (1, 1), "{logged}");
        assert!(
            logged.contains("WARN") && logged.contains("missing.pem") && logged.contains("trusted=1"),
            "{logged}"
        );
    }

    #[test]
    fn a_file_is_trusted_beside_the_system_and_holds_nothing_of_it() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("authority.pem");
        let certificate = rcgen::generate_simple_self_signed(["authority.example".to_owned()]).unwrap();
        std::fs::write(&file, certificate.cert.pem()).unwrap();
        assert_eq!(of_file(&file).unwrap().len(), 1);
        assert_eq!(authorities(Some(&file)).unwrap().len(), authorities(None).unwrap().len() + 1);
        std::fs::write(&file, "").unwrap();
        assert!(of_file(&file).is_err() && authorities(Some(&file)).is_err());
    }

    #[test]
    fn of_very_many_that_cannot_be_read_a_few_are_named() {
        let mut loaded = CertificateResult::default();
        for number in 0..500 {
            let missing = format!("/nonexistent/{number}.pem");
            loaded.errors.extend(load_certs_from_paths(Some(Path::new(&missing)), None).errors);
        }
        let (count, logged) = left(loaded);
        assert_eq!((count, logged.lines().count()), (0, 1), "{logged}");
        assert!(logged.contains("unread=500") && logged.len() < 1_000, "{logged}");
    }
}
