//! TLS by `sslmode`, against servers whose certificates the tests generate.

use std::path::PathBuf;
use std::sync::OnceLock;

use posthaste_postgres_server::{PostgresServer, TEST_SETTINGS};
use posthaste_store::Store as _;
use posthaste_store_postgres::{MigrateError, PostgresStore, migrate};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

use crate::fixture::*;

/// A server with a certificate signed by an authority of its own.
struct TlsServer {
    server: PostgresServer,
    authority: PathBuf,
    _files: TempDir,
}

impl TlsServer {
    fn start(host: &str) -> Self {
        let files = tempfile::tempdir().unwrap();
        let (authority, certificate, key) = certificate_for(host);
        let write = |name: &str, text: String| {
            let path = files.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let (certificate, key) = (write("server.crt", certificate), write("server.key", key));
        let authority = write("authority.crt", authority);
        let (certificate, key) = (certificate.display().to_string(), key.display().to_string());
        let ssl = [("ssl", "on"), ("ssl_cert_file", &*certificate), ("ssl_key_file", &*key)];
        let settings: Vec<_> = TEST_SETTINGS.iter().copied().chain(ssl).collect();
        let server = PostgresServer::start(&settings).unwrap_or_else(|error| panic!("{error}"));
        Self { server, authority, _files: files }
    }

    /// A server whose certificate names the address that clients connect to.
    fn with_matching_name() -> &'static Self {
        static SERVER: OnceLock<TlsServer> = OnceLock::new();
        SERVER.get_or_init(|| Self::start("127.0.0.1"))
    }

    /// A server whose certificate names another host.
    fn with_other_name() -> &'static Self {
        static SERVER: OnceLock<TlsServer> = OnceLock::new();
        SERVER.get_or_init(|| Self::start("database.example"))
    }

    /// The URL of a new database, which trusts the authority of `trusted`.
    fn url(&self, mode: &str, trusted: Option<&Self>) -> String {
        let database = self.server.create_database("tls");
        let root = trusted.map(|trusted| format!("&sslrootcert={}", trusted.authority.display()));
        format!("{}?sslmode={mode}{}", database.url, root.unwrap_or_default())
    }
}

/// PEM of an authority, of a certificate for `host` that it signed, and of the certificate's key.
fn certificate_for(host: &str) -> (String, String, String) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate().unwrap();
    let authority = params.self_signed(&authority_key).unwrap();
    let key = KeyPair::generate().unwrap();
    let issuer = Issuer::new(params, authority_key);
    let certificate =
        CertificateParams::new(vec![host.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    (authority.pem(), certificate.pem(), key.serialize_pem())
}

async fn assert_works(url: &str) {
    let store = open(url).await;
    enqueue_and_attempt(&store, spec(), 200).await;
    assert_eq!(store.overview().await.unwrap().delivered, 1);
}

/// Whether the connections of a store are encrypted, according to the server.
async fn encryption(tls_server: &TlsServer, url: &str) -> String {
    let store = PostgresStore::connect(config(url));
    let _ = store.overview().await;
    let sql =
        "SELECT string_agg(DISTINCT s.ssl::text, ',') FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid)
               WHERE a.application_name = 'posthaste' AND a.datname = current_database()";
    let database = url.split('?').next().unwrap().rsplit('/').next().unwrap();
    query_text(&tls_server.server, database, sql)
}

/// The error of a connection that must fail.
async fn connect_error(url: &str) -> String {
    match migrate(&config(url)).await {
        Err(error @ MigrateError::Connect(_)) => error.to_string(),
        other => panic!("the server must not be trusted: {other:?}"),
    }
}

#[tokio::test]
async fn connections_are_encrypted_unless_tls_is_disabled() {
    let server = TlsServer::with_matching_name();
    for (mode, expected) in [("require", "true"), ("prefer", "true"), ("disable", "false")] {
        let url = server.url(mode, None);
        assert_works(&url).await;
        assert_eq!(encryption(server, &url).await, expected, "{mode}");
    }
}

#[tokio::test]
async fn a_verified_server_is_accepted_only_with_its_own_authority() {
    let (server, other) = (TlsServer::with_matching_name(), TlsServer::with_other_name());
    for mode in ["verify-ca", "verify-full"] {
        let url = server.url(mode, Some(server));
        assert_works(&url).await;
        assert_eq!(encryption(server, &url).await, "true", "{mode}");
        let error = connect_error(&server.url(mode, Some(other))).await;
        assert!(error.contains("certificate"), "{mode}: {error}");
        connect_error(&server.url(mode, None)).await;
    }
}

#[tokio::test]
async fn only_verify_full_checks_the_host_name() {
    let server = TlsServer::with_other_name();
    assert_works(&server.url("verify-ca", Some(server))).await;
    let error = connect_error(&server.url("verify-full", Some(server))).await;
    assert!(error.contains("not valid for name"), "{error}");
}

#[tokio::test]
async fn a_server_without_tls_is_accepted_by_prefer_and_rejected_by_require() {
    let plain = PostgresServer::shared().create_database("plain");
    connect_error(&format!("{}?sslmode=require", plain.url)).await;
    assert_works(&format!("{}?sslmode=prefer", plain.url)).await;
}
