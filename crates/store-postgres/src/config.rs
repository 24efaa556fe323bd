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
    /// In words that repeat no part of the URL: whatever is not understood could be a password.
    #[error("the database URL is not usable: {0}; write it as postgres://user:password@host:5432/database")]
    Malformed(String),
    #[error(
        "parameter {0} after the ? is not known; remove it, or write a ? that belongs to a password as %3F"
    )]
    Parameter(usize),
    #[error("the sslmode is not known; use disable, prefer, require, verify-ca or verify-full")]
    SslMode,
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
    /// Reads certificates too, where the URL asks for a server that is verified.
    pub fn from_url(url: &str) -> Result<Self, InvalidUrl> {
        let Parsed { connect, verify, root_cert } = Parsed::from_url(url)?;
        Ok(Self { connect, tls: tls::connector(verify, root_cert)? })
    }

    /// Whether a URL can be used, as far as its text tells: no file is read.
    pub fn check_url(url: &str) -> Result<(), InvalidUrl> {
        Parsed::from_url(url).map(drop)
    }
}

/// What the text of a URL says.
struct Parsed {
    connect: tokio_postgres::Config,
    verify: Verify,
    root_cert: Option<PathBuf>,
}

impl Parsed {
    fn from_url(url: &str) -> Result<Self, InvalidUrl> {
        if !(url.starts_with("postgres://") || url.starts_with("postgresql://")) {
            return Err(InvalidUrl::Scheme);
        }
        let (rest, ssl) = SslParameters::split_from(url);
        let mut connect =
            tokio_postgres::Config::from_str(&rest).map_err(|error| not_understood(url, &error))?;
        check_hosts(&connect)?;
        let mode = ssl.mode.as_deref().unwrap_or("prefer");
        let (ssl_mode, verify) = match mode {
            "disable" => (SslMode::Disable, Verify::Nothing),
            "prefer" => (SslMode::Prefer, Verify::Nothing),
            "require" => (SslMode::Require, Verify::Nothing),
            "verify-ca" => (SslMode::Require, Verify::Authority),
            "verify-full" => (SslMode::Require, Verify::Host),
            _ => return Err(InvalidUrl::SslMode),
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
        Ok(Self { connect, verify, root_cert: ssl.root_cert })
    }
}

/// The driver would say this only when it dials.
fn check_hosts(connect: &tokio_postgres::Config) -> Result<(), InvalidUrl> {
    let hosts = connect.get_hosts().len().max(connect.get_hostaddrs().len());
    match connect.get_ports().len() {
        _ if hosts == 0 => Err(InvalidUrl::Malformed("it names no host".to_owned())),
        0 | 1 => Ok(()),
        ports if ports == hosts => Ok(()),
        ports => Err(InvalidUrl::Malformed(format!("it names {hosts} hosts and {ports} ports"))),
    }
}

/// How the driver's words about a parameter begin that it does not know; it repeats the name.
const UNKNOWN: &str = "unknown option";

/// A parameter that the driver does not know is told by its place.
fn not_understood(url: &str, error: &tokio_postgres::Error) -> InvalidUrl {
    let words = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let is_unknown = |pair: &str| {
        // With a user, because the driver takes the first @ for the end of one.
        let (rest, ssl) = SslParameters::split_from(&format!("postgres://user@host/?{pair}"));
        ssl.is_empty() && tokio_postgres::Config::from_str(&rest).is_err()
    };
    match (1..).zip(query.split('&')).find(|(_, pair)| is_unknown(pair)) {
        Some((position, _)) if words.starts_with(UNKNOWN) => InvalidUrl::Parameter(position),
        _ if words.starts_with(UNKNOWN) => {
            InvalidUrl::Malformed("a parameter after the ? is not known".to_owned())
        }
        _ => InvalidUrl::Malformed(words),
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
    fn is_empty(&self) -> bool {
        self.mode.is_none() && self.root_cert.is_none()
    }

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
    }

    #[test]
    fn what_is_wrong_with_a_url_is_named_and_nothing_of_it_is_repeated() {
        for (url, told) in [
            ("postgres://app:hunter2@one:not-a-port/shop", "invalid value for option `port`"),
            ("postgres://app@one/shop?connect_timeout=hunter2", "invalid value for option `connect_timeout`"),
            ("postgres://app@one/shop?sslmode=disable&hunter2=yes", "parameter 2 after the ? is not known"),
            ("postgres://app:@?hunter2=@one/shop", "parameter 1 after the ? is not known"),
            ("postgres://app@one/shop?hunter2", "unterminated parameter"),
            ("postgres://app@one/shop?sslmode=hunter2", "sslmode is not known"),
            ("postgres:///hunter2", "names no host"),
            ("postgres://one,two/hunter2?port=1,2,3", "2 hosts and 5 ports"),
        ] {
            let shown = refused(url);
            assert!(shown.contains(told) && !shown.contains("hunter2"), "{url}: {shown}");
            assert!(PostgresConfig::check_url(url).is_err(), "{url}");
        }
    }

    #[test]
    fn a_url_is_checked_without_the_files_that_it_names() {
        let url = "postgres://app@one/shop?sslmode=verify-full&sslrootcert=/no/such/file";
        assert!(PostgresConfig::check_url(url).is_ok() && PostgresConfig::from_url(url).is_err());
    }
}
