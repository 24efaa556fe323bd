//! TLS as far as `sslmode` asks for it, against a server with a certificate of our own making.

use std::path::PathBuf;
use std::sync::OnceLock;

use posthaste_postgres_server::{FOR_TESTS, PostgresServer};
use posthaste_store::Store as _;
use posthaste_store_postgres::{MigrateError, PostgresStore, migrate};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

use crate::fixture::*;

/// A server whose certificate is for 127.0.0.1 or for another name, by an authority of its own.
struct Secure {
    server: PostgresServer,
    authority: PathBuf,
    _files: TempDir,
}

impl Secure {
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
        let settings: Vec<_> = FOR_TESTS.iter().copied().chain(ssl).collect();
        let server = PostgresServer::start(&settings).unwrap_or_else(|error| panic!("{error}"));
        Self { server, authority, _files: files }
    }

    /// For the address that is dialled.
    fn right() -> &'static Self {
        static RIGHT: OnceLock<Secure> = OnceLock::new();
        RIGHT.get_or_init(|| Self::start("127.0.0.1"))
    }

    /// For somebody else.
    fn wrong() -> &'static Self {
        static WRONG: OnceLock<Secure> = OnceLock::new();
        WRONG.get_or_init(|| Self::start("database.example"))
    }

    /// The URL of a new database, with an authority to trust.
    fn url(&self, mode: &str, trusted: Option<&Self>) -> String {
        let database = self.server.create_database("tls");
        let root = trusted.map(|trusted| format!("&sslrootcert={}", trusted.authority.display()));
        format!("{}?sslmode={mode}{}", database.url, root.unwrap_or_default())
    }
}

/// An authority, a certificate that it signed, and that one's key.
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
    attempted(&store, spec(), 200).await;
    assert_eq!(store.overview().await.unwrap().delivered, 1);
}

/// Whether the connections of a store are encrypted, as the server sees it.
async fn encrypted(secure: &Secure, url: &str) -> String {
    let store = PostgresStore::connect(config(url));
    let _ = store.overview().await;
    let sql =
        "SELECT string_agg(DISTINCT s.ssl::text, ',') FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid)
               WHERE a.application_name = 'posthaste' AND a.datname = current_database()";
    let database = url.split('?').next().unwrap().rsplit('/').next().unwrap();
    say(&secure.server, database, sql)
}

async fn refusal(url: &str) -> String {
    match migrate(&config(url)).await {
        Err(refused @ MigrateError::Connect(_)) => refused.to_string(),
        other => panic!("the server must not be trusted: {other:?}"),
    }
}

#[tokio::test]
async fn a_required_connection_is_encrypted_and_one_without_tls_is_not() {
    let secure = Secure::right();
    for (mode, expected) in [("require", "true"), ("prefer", "true"), ("disable", "false")] {
        let url = secure.url(mode, None);
        assert_works(&url).await;
        assert_eq!(encrypted(secure, &url).await, expected, "{mode}");
    }
}

#[tokio::test]
async fn a_verified_server_is_trusted_with_its_authority_and_not_with_another() {
    let (secure, other) = (Secure::right(), Secure::wrong());
    for mode in ["verify-ca", "verify-full"] {
        let url = secure.url(mode, Some(secure));
        assert_works(&url).await;
        assert_eq!(encrypted(secure, &url).await, "true", "{mode}");
        let refused = refusal(&secure.url(mode, Some(other))).await;
        assert!(refused.contains("certificate"), "{mode}: {refused}");
        refusal(&secure.url(mode, None)).await;
    }
}

#[tokio::test]
async fn the_name_of_the_host_matters_to_verify_full_alone() {
    let secure = Secure::wrong();
    assert_works(&secure.url("verify-ca", Some(secure))).await;
    let refused = refusal(&secure.url("verify-full", Some(secure))).await;
    assert!(refused.contains("not valid for name"), "{refused}");
}

#[tokio::test]
async fn a_server_without_tls_is_refused_by_whoever_requires_it() {
    let plain = PostgresServer::shared().create_database("plain");
    refusal(&format!("{}?sslmode=require", plain.url)).await;
    assert_works(&format!("{}?sslmode=prefer", plain.url)).await;
}
