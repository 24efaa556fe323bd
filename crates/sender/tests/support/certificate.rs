//! A self-signed certificate for loopback, for receivers that present it and senders that trust it.

use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio_rustls::TlsAcceptor;

/// A certificate, in a file and in a TLS acceptor.
pub(crate) struct Certificate {
    file: tempfile::NamedTempFile,
    acceptor: TlsAcceptor,
}

impl Certificate {
    /// Creates a certificate, and an acceptor that negotiates this protocol by ALPN.
    pub(crate) fn with_alpn(protocol: &str) -> Self {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), cert.pem()).unwrap();
        let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.unwrap().with_no_client_auth();
        let mut config = config.with_single_cert(vec![cert.der().clone()], key).unwrap();
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        Self { file, acceptor: TlsAcceptor::from(Arc::new(config)) }
    }

    /// Returns the path of the PEM file, which exists until this value is dropped.
    pub(crate) fn file(&self) -> PathBuf {
        self.file.path().to_owned()
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        self.acceptor.clone()
    }
}
