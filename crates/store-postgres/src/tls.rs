//! TLS to the server, as far as `sslmode` asks for it.
//!
//! `prefer` and `require` keep listeners out and verify nobody, as libpq has it; `verify-ca` and `verify-full` also
//! know whom they speak to.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::config::InvalidUrl;

pub(crate) type Connector = MakeRustlsConnect;

/// What of the server's certificate is verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verify {
    Nothing,
    /// Signed by an authority that we trust, for whichever host.
    Authority,
    /// Signed so, and for the host that was dialled.
    Host,
}

pub(crate) fn connector(verify: Verify, root_cert: Option<PathBuf>) -> Result<Connector, InvalidUrl> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("the provider supports the default versions");
    let config = match verify {
        Verify::Host => builder.with_root_certificates(roots(root_cert)?).with_no_client_auth(),
        Verify::Nothing => dangerous(builder, Lenient { authority: None, algorithms: algorithms(&provider) }),
        Verify::Authority => {
            let roots = Arc::new(roots(root_cert)?);
            let authority =
                WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider)).build().map_err(
                    |error| InvalidUrl::Certificates { path: PathBuf::new(), reason: error.to_string() },
                )?;
            dangerous(builder, Lenient { authority: Some(authority), algorithms: algorithms(&provider) })
        }
    };
    Ok(MakeRustlsConnect::new(config))
}

fn dangerous(
    builder: rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>,
    verifier: Lenient,
) -> ClientConfig {
    builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth()
}

fn algorithms(provider: &CryptoProvider) -> WebPkiSupportedAlgorithms {
    provider.signature_verification_algorithms
}

/// The authorities of the given file, or the system's.
fn roots(root_cert: Option<PathBuf>) -> Result<RootCertStore, InvalidUrl> {
    let mut roots = RootCertStore::empty();
    let Some(path) = root_cert else {
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return Ok(roots);
    };
    let refused = |reason: String| InvalidUrl::Certificates { path: path.clone(), reason };
    let certificates = CertificateDer::pem_file_iter(&path).map_err(|error| refused(error.to_string()))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| refused(error.to_string()))?;
        roots.add(certificate).map_err(|error| refused(error.to_string()))?;
    }
    if roots.is_empty() { Err(refused("there is no certificate in it".into())) } else { Ok(roots) }
}

/// Accepts what `sslmode` asks it to accept. That the server owns the certificate it shows is checked all the same.
#[derive(Debug)]
struct Lenient {
    authority: Option<Arc<WebPkiServerVerifier>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Lenient {
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
