//! Where the server is, and how to speak to it: a `postgres://` URL and what it may carry.

use std::path::PathBuf;
use std::str::FromStr as _;
use std::time::Duration;

use tokio_postgres::config::SslMode;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Connection, Socket};
use url::form_urlencoded;

use crate::tls::{self, Verify};

/// How long a connection may take to be made, per host of the URL.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// A connection on which nothing happens is tried this often, so that one that only listens notices a lost peer.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(30);
/// From dialling to a session, whatever the server does or does not do.
const SESSION_WITHIN: Duration = Duration::from_secs(10);
/// A peer that acknowledges nothing for this long is gone.
const PEER_SILENT_MAX: Duration = Duration::from_secs(15);

#[derive(Debug, thiserror::Error)]
pub enum InvalidUrl {
    #[error("the database URL must begin with postgres:// or postgresql://")]
    Scheme,
    /// The parser's own words; they repeat no part of the URL that could be a password.
    #[error("the database URL is not usable: {0}; write it as postgres://user:password@host:5432/database")]
    Malformed(#[source] tokio_postgres::Error),
    #[error("sslmode={0} is not known; use disable, prefer, require, verify-ca or verify-full")]
    SslMode(String),
    #[error("the certificates in {path} could not be read: {reason}")]
    Certificates { path: PathBuf, reason: String },
    #[error("sslrootcert is given, but sslmode={0} verifies nothing; use sslmode=verify-full")]
    UnusedCertificates(String),
}

/// A parsed URL. Several hosts, and `target_session_attrs=read-write` to find the one that accepts writes, are
/// understood as libpq does.
#[derive(Clone)]
pub struct PostgresConfig {
    pub(crate) connect: tokio_postgres::Config,
    pub(crate) tls: tls::Connector,
}

impl PostgresConfig {
    pub fn from_url(url: &str) -> Result<Self, InvalidUrl> {
        if !(url.starts_with("postgres://") || url.starts_with("postgresql://")) {
            return Err(InvalidUrl::Scheme);
        }
        let (url, ssl) = SslParameters::split_from(url);
        let mut connect = tokio_postgres::Config::from_str(&url).map_err(InvalidUrl::Malformed)?;
        let mode = ssl.mode.as_deref().unwrap_or("prefer");
        let (ssl_mode, verify) = match mode {
            "disable" => (SslMode::Disable, Verify::Nothing),
            "prefer" => (SslMode::Prefer, Verify::Nothing),
            "require" => (SslMode::Require, Verify::Nothing),
            "verify-ca" => (SslMode::Require, Verify::Authority),
            "verify-full" => (SslMode::Require, Verify::Host),
            other => return Err(InvalidUrl::SslMode(other.to_owned())),
        };
        if ssl.root_cert.is_some() && verify == Verify::Nothing {
            return Err(InvalidUrl::UnusedCertificates(mode.to_owned()));
        }
        connect.ssl_mode(ssl_mode);
        if connect.get_connect_timeout().is_none() {
            connect.connect_timeout(CONNECT_WITHIN);
        }
        if connect.get_application_name().is_none() {
            connect.application_name("posthaste");
        }
        connect.tcp_user_timeout(PEER_SILENT_MAX);
        connect.keepalives_idle(KEEPALIVE_AFTER);
        Ok(Self { connect, tls: tls::connector(verify, ssl.root_cert)? })
    }
}

impl PostgresConfig {
    /// A connection outside the pools; none when the server does not answer in time. The driver bounds the dialling
    /// alone.
    #[expect(
        clippy::disallowed_methods,
        reason = "bounds a wait for the network; nothing is scheduled by it"
    )]
    pub(crate) async fn dial(&self) -> Option<Result<(Client, Dialled), tokio_postgres::Error>> {
        tokio::time::timeout(SESSION_WITHIN, self.connect.connect(self.tls.clone())).await.ok()
    }
}

pub(crate) type Dialled = Connection<Socket, <tls::Connector as MakeTlsConnect<Socket>>::Stream>;

/// Parameters that libpq knows and the driver does not.
#[derive(Default)]
struct SslParameters {
    mode: Option<String>,
    root_cert: Option<PathBuf>,
}

impl SslParameters {
    fn split_from(url: &str) -> (String, Self) {
        let mut ssl = Self::default();
        let Some((base, query)) = url.split_once('?') else { return (url.to_owned(), ssl) };
        let mut rest = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match form_urlencoded::parse(pair.as_bytes()).next() {
                Some((name, value)) if name == "sslmode" => ssl.mode = Some(value.into_owned()),
                Some((name, value)) if name == "sslrootcert" => {
                    ssl.root_cert = Some(PathBuf::from(value.into_owned()));
                }
                _ => rest.push(pair),
            }
        }
        let url = if rest.is_empty() { base.to_owned() } else { format!("{base}?{}", rest.join("&")) };
        (url, ssl)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str) -> String {
        PostgresConfig::from_url(url).err().expect("the URL is refused").to_string()
    }

    #[test]
    fn several_hosts_and_the_one_that_accepts_writes_are_understood() {
        let url = "postgres://app@one:5432,two:5433/shop?target_session_attrs=read-write&sslmode=disable";
        let config = PostgresConfig::from_url(url).unwrap().connect;
        assert_eq!((config.get_hosts().len(), config.get_ports()), (2, &[5432, 5433][..]));
        assert_eq!(config.get_ssl_mode(), SslMode::Disable);
        assert_eq!(config.get_target_session_attrs(), tokio_postgres::config::TargetSessionAttrs::ReadWrite);
    }

    #[test]
    fn verified_connections_are_never_made_without_tls() {
        for mode in ["require", "verify-ca", "verify-full"] {
            let config =
                PostgresConfig::from_url(&format!("postgres://app@one/shop?sslmode={mode}")).unwrap();
            assert_eq!(config.connect.get_ssl_mode(), SslMode::Require, "{mode}");
        }
    }

    #[test]
    fn what_cannot_work_is_refused_with_the_rule() {
        assert!(refused("mysql://app@one/shop").contains("postgres://"));
        assert!(refused("postgres://app@one/shop?sslmode=maybe").contains("verify-full"));
        assert!(refused("postgres://app@one/shop?sslrootcert=/x").contains("verifies nothing"));
        let missing = refused("postgres://app@one/shop?sslmode=verify-full&sslrootcert=%2Fno%2Fsuch%20file");
        assert!(missing.contains("/no/such file"), "{missing}");
        let shown = refused("postgres://app:hunter2@one:not-a-port/shop");
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
