//! TLS to the server, as `sslmode` requires.
//!
//! As in libpq, `prefer` and `require` encrypt the connection without verifying the server; `verify-ca` and
//! `verify-full` also verify its certificate.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::config::InvalidUrl;

/// The TLS connector that the driver uses.
pub(crate) type Connector = MakeRustlsConnect;

/// How much of the server's certificate is verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verification {
    None,
    /// The certificate must be signed by a trusted authority, for any host name.
    Authority,
    /// The certificate must be signed by a trusted authority for the host of the URL.
    Host,
}

/// Builds a TLS connector. Reads the certificates in `root_cert`, or the system's, if the server is verified.
pub(crate) fn connector(
    verification: Verification,
    root_cert: Option<PathBuf>,
) -> Result<Connector, InvalidUrl> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("the provider supports the default versions");
    let algorithms = provider.signature_verification_algorithms;
    let config = match verification {
        Verification::Host => {
            builder.with_root_certificates(root_certificates(root_cert)?).with_no_client_auth()
        }
        Verification::None => with_custom_verifier(builder, LenientVerifier { authority: None, algorithms }),
        Verification::Authority => {
            let roots = Arc::new(root_certificates(root_cert)?);
            let authority =
                WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider)).build().map_err(
                    |error| InvalidUrl::Certificates { path: PathBuf::new(), reason: error.to_string() },
                )?;
            with_custom_verifier(builder, LenientVerifier { authority: Some(authority), algorithms })
        }
    };
    Ok(MakeRustlsConnect::new(config))
}

fn with_custom_verifier(
    builder: rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>,
    verifier: LenientVerifier,
) -> ClientConfig {
    builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth()
}

/// Reads the trusted authorities of a file, or the system's.
fn root_certificates(root_cert: Option<PathBuf>) -> Result<RootCertStore, InvalidUrl> {
    let mut roots = RootCertStore::empty();
    let Some(path) = root_cert else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return Ok(roots);
    };
    let invalid = |reason: String| InvalidUrl::Certificates { path: path.clone(), reason };
    let certificates = CertificateDer::pem_file_iter(&path).map_err(|error| invalid(error.to_string()))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| invalid(error.to_string()))?;
        roots.add(certificate).map_err(|error| invalid(error.to_string()))?;
    }
    if roots.is_empty() { Err(invalid("the file contains no certificate".into())) } else { Ok(roots) }
}

/// A certificate verifier that ignores the host name, or accepts any certificate if there is no authority. It always
/// checks the handshake signature, which proves that the server owns its certificate.
#[derive(Debug)]
struct LenientVerifier {
    authority: Option<Arc<WebPkiServerVerifier>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for LenientVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(authority) = &self.authority else { return Ok(ServerCertVerified::assertion()) };
        match authority.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            Err(rustls::Error::InvalidCertificate(
                rustls::CertificateError::NotValidForName
                | rustls::CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
