//! Root certificates: the certificate authorities that a TLS client trusts.

use std::path::Path;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls_native_certs::CertificateResult;

use crate::options::InvalidOptions;

/// Upper bound of unreadable files named in a warning. If one file cannot be read, often hundreds cannot.
const UNREADABLE_SHOWN_MAX: usize = 3;

/// The certificate authorities that a TLS client trusts.
#[derive(Debug, Clone, Copy)]
pub enum RootSource<'a> {
    /// The system's certificate authorities.
    System,
    /// The authorities in a PEM file, and no others.
    File(&'a Path),
    /// The system's authorities and those in a PEM file.
    SystemAndFile(&'a Path),
}

impl<'a> RootSource<'a> {
    /// Selects the system's authorities, and those in `ca_file` if there is one.
    pub fn system_and(ca_file: Option<&'a Path>) -> Self {
        ca_file.map_or(Self::System, Self::SystemAndFile)
    }
}

/// Loads root certificates, for use in a `rustls` client configuration.
///
/// Logs a warning if some of the system's certificates cannot be read, and returns the others. A system without
/// certificates is no error: the store is then empty and every handshake fails. A PEM file must contain at least one
/// certificate.
pub fn load_root_certificates(source: RootSource<'_>) -> Result<RootCertStore, InvalidOptions> {
    match source {
        RootSource::System => Ok(load_system_roots()),
        RootSource::File(path) => load_file(path),
        RootSource::SystemAndFile(path) => {
            let from_file = load_file(path)?;
            let mut roots = load_system_roots();
            roots.extend(from_file.roots);
            Ok(roots)
        }
    }
}

fn load_file(path: &Path) -> Result<RootCertStore, InvalidOptions> {
    let invalid = |reason: String| InvalidOptions::Certificates { path: path.to_owned(), reason };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| invalid(error.to_string()))? {
        let certificate = certificate.map_err(|error| invalid(error.to_string()))?;
        roots.add(certificate).map_err(|error| invalid(error.to_string()))?;
    }
    if roots.is_empty() {
        return Err(invalid("the file contains no certificate".to_owned()));
    }
    Ok(roots)
}

fn load_system_roots() -> RootCertStore {
    collect_readable(rustls_native_certs::load_native_certs())
}

/// Collects the certificates that were loaded and warns once about those that could not be read.
fn collect_readable(loaded: CertificateResult) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(loaded.certs);
    if !loaded.errors.is_empty() {
        let shown = loaded.errors.iter().take(UNREADABLE_SHOWN_MAX).map(ToString::to_string);
        tracing::warn!(
            unread = loaded.errors.len(),
            first = shown.collect::<Vec<_>>().join("; "),
            trusted = roots.len(),
            "not all of the system's certificate authorities can be read; certificates that only they signed are refused"
        );
    }
    roots
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use rustls_native_certs::load_certs_from_paths;

    use super::*;

    /// A log that tests can read.
    #[derive(Clone, Default)]
    struct CapturedLog(Arc<Mutex<Vec<u8>>>);

    impl io::Write for CapturedLog {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Returns the number of collected certificates, and the log output.
    fn collect_and_log(loaded: CertificateResult) -> (usize, String) {
        let log = CapturedLog::default();
        let writer = log.clone();
        let subscriber =
            tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
        let roots = tracing::subscriber::with_default(subscriber, || collect_readable(loaded));
        let logged = log.0.lock().unwrap().clone();
        (roots.len(), String::from_utf8(logged).unwrap())
    }

    #[test]
    fn unreadable_system_certificates_are_logged_once_and_the_readable_ones_are_trusted() {
        let directory = tempfile::tempdir().unwrap();
        let certificate = rcgen::generate_simple_self_signed(["authority.example".to_owned()]).unwrap();
        std::fs::write(directory.path().join("good.pem"), certificate.cert.pem()).unwrap();
        let missing = directory.path().join("missing.pem");
        assert_eq!(collect_and_log(load_certs_from_paths(None, Some(directory.path()))), (1, String::new()));

        let (count, logged) = collect_and_log(load_certs_from_paths(Some(&missing), Some(directory.path())));
        assert_eq!((count, logged.lines().count()), (1, 1), "{logged}");
        assert!(
            logged.contains("WARN") && logged.contains("missing.pem") && logged.contains("trusted=1"),
            "{logged}"
        );
    }

    #[test]
    fn ca_file_is_trusted_in_addition_to_the_system_or_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("authority.pem");
        let certificate = rcgen::generate_simple_self_signed(["authority.example".to_owned()]).unwrap();
        std::fs::write(&path, certificate.cert.pem()).unwrap();
        let count = |source| load_root_certificates(source).unwrap().len();
        assert_eq!(count(RootSource::File(&path)), 1);
        assert_eq!(count(RootSource::system_and(Some(&path))), count(RootSource::system_and(None)) + 1);
        std::fs::write(&path, "").unwrap();
        for source in [RootSource::File(&path), RootSource::system_and(Some(&path))] {
            assert!(load_root_certificates(source).is_err(), "{source:?}");
        }
    }

    #[test]
    fn only_a_few_of_many_unreadable_certificates_are_named() {
        let mut loaded = CertificateResult::default();
        for number in 0..500 {
            let missing = format!("/nonexistent/{number}.pem");
            loaded.errors.extend(load_certs_from_paths(Some(Path::new(&missing)), None).errors);
        }
        let (count, logged) = collect_and_log(loaded);
        assert_eq!((count, logged.lines().count()), (0, 1), "{logged}");
        assert!(logged.contains("unread=500") && logged.len() < 1_000, "{logged}");
    }
}
