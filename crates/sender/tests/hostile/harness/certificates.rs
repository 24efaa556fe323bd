//! Valid and invalid certificates, and TLS server configurations that present them.

use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{BasicConstraints, Certificate, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use tempfile::TempDir;

/// The host name of receivers over TLS.
pub(crate) const RECEIVER_NAME: &str = "receiver.example";

/// The TLS configuration of a receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handshake {
    /// A valid certificate, and HTTP/1.1.
    Http1,
    /// A valid certificate, and HTTP/2.
    Http2,
    WithoutAlpn,
    ForeignAlpn,
    Tls12Only,
    RequiresClientCertificate,
    Expired,
    NotYetValid,
    OtherName,
    SelfSigned,
    UnknownAuthority,
}

/// A certificate authority that the sender trusts, and one that it does not.
pub(crate) struct Certificates {
    trusted: Authority,
    unknown: Authority,
    files: TempDir,
}

impl Certificates {
    pub(crate) fn new() -> Self {
        let certificates = Self {
            trusted: Authority::new("trusted"),
            unknown: Authority::new("unknown"),
            files: tempfile::tempdir().unwrap(),
        };
        std::fs::write(certificates.ca_file(), certificates.trusted.certificate.pem()).unwrap();
        certificates
    }

    /// Path of the trusted authority's certificate, as PEM.
    pub(crate) fn ca_file(&self) -> PathBuf {
        self.files.path().join("authority.pem")
    }

    pub(crate) fn server_config(&self, handshake: Handshake) -> Arc<ServerConfig> {
        let key = KeyPair::generate().unwrap();
        let certificate = self.certificate(handshake, &key);
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let versions = match handshake {
            Handshake::Tls12Only => &[&rustls::version::TLS12][..],
            _ => rustls::DEFAULT_VERSIONS,
        };
        let builder = ServerConfig::builder_with_provider(provider).with_protocol_versions(versions).unwrap();
        let builder = match handshake {
            Handshake::RequiresClientCertificate => builder.with_client_cert_verifier(self.client_verifier()),
            _ => builder.with_no_client_auth(),
        };
        let mut config = builder.with_single_cert(vec![certificate.der().clone()], key).unwrap();
        // Disables session resumption, so that cases do not affect each other.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.alpn_protocols = match handshake {
            Handshake::Http2 => vec![b"h2".to_vec()],
            Handshake::WithoutAlpn => vec![],
            Handshake::ForeignAlpn => vec![b"smtp".to_vec()],
            _ => vec![b"http/1.1".to_vec()],
        };
        Arc::new(config)
    }

    fn certificate(&self, handshake: Handshake, key: &KeyPair) -> Certificate {
        let name = if handshake == Handshake::OtherName { "other.example" } else { RECEIVER_NAME };
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        match handshake {
            Handshake::Expired => params.not_after = date_time_ymd(2020, 1, 1),
            Handshake::NotYetValid => params.not_before = date_time_ymd(2999, 1, 1),
            _ => {}
        }
        match handshake {
            Handshake::SelfSigned => params.self_signed(key).unwrap(),
            Handshake::UnknownAuthority => params.signed_by(key, &self.unknown.issuer).unwrap(),
            _ => params.signed_by(key, &self.trusted.issuer).unwrap(),
        }
    }

    fn client_verifier(&self) -> Arc<dyn rustls::server::danger::ClientCertVerifier> {
        let mut roots = RootCertStore::empty();
        roots.add(self.trusted.certificate.der().clone()).unwrap();
        WebPkiClientVerifier::builder(Arc::new(roots)).build().unwrap()
    }
}

struct Authority {
    certificate: Certificate,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Self { certificate, issuer: Issuer::new(params, key) }
    }
}
