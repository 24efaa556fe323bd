//! Connection settings: parses a `postgres://` URL.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr as _;
use std::time::Duration;

use tokio_postgres::config::SslMode;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Connection, Socket};
use url::form_urlencoded;

use crate::claim::LOOK_INTERVAL;
use crate::schema::SchemaName;
use crate::tls::{self, Verification};

/// Timeout of connecting, per host of the URL.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Idle time before a TCP keepalive probe, by which a connection that only listens detects a lost peer.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
/// Timeout from connecting to a usable session, over all hosts of the URL.
const SESSION_TIMEOUT: Duration = Duration::from_secs(10);
/// How long sent data may stay unacknowledged before the connection is closed.
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(15);

/// Why a database URL is rejected. No message repeats a part of the URL that could be a password.
#[derive(Debug, thiserror::Error)]
pub enum InvalidUrl {
    #[error("the database URL must begin with postgres:// or postgresql://")]
    Scheme,
    /// A URL that the driver cannot parse, with the driver's reason.
    #[error("the database URL is not usable: {0}; write it as postgres://user:password@host:5432/database")]
    Malformed(String),
    /// An unknown parameter, identified by its position because its name could be part of a password.
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

/// The settings of a connection to PostgreSQL. As in libpq, a URL may name several hosts, and
/// `target_session_attrs=read-write` selects the one that accepts writes.
#[derive(Clone)]
pub struct PostgresConfig {
    pub(crate) driver: tokio_postgres::Config,
    pub(crate) tls: tls::Connector,
    pub(crate) schema: SchemaName,
    pub(crate) look_interval: Duration,
}

impl PostgresConfig {
    /// Parses a URL. Reads the certificates if its sslmode verifies the server.
    pub fn from_url(url: &str) -> Result<Self, InvalidUrl> {
        PostgresUrl::parse(url)?.into_config()
    }

    /// Sets the schema that holds Posthaste's objects. The default is `app`.
    #[must_use]
    pub fn in_schema(self, schema: SchemaName) -> Self {
        Self { schema, ..self }
    }

    /// Sets how long claims may take the rows that earlier claims have found, without looking for others. The default is
    /// 3 ms. A claim that does not look may omit what operators have resumed and what it should abandon until the next one; with
    /// zero, every claim is complete.
    #[must_use]
    pub fn looking_every(self, look_interval: Duration) -> Self {
        Self { look_interval, ..self }
    }
}

/// A parsed database URL. Its certificates have not been read. `Debug` shows no part of the URL, because any part may
/// be a misplaced password.
#[derive(Clone, PartialEq, Eq)]
pub struct PostgresUrl {
    driver: tokio_postgres::Config,
    verification: Verification,
    root_cert: Option<PathBuf>,
}

impl fmt::Debug for PostgresUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresUrl").finish_non_exhaustive()
    }
}

impl PostgresUrl {
    /// Reads the certificates if the URL's sslmode verifies the server. The schema is `app`.
    pub fn into_config(self) -> Result<PostgresConfig, InvalidUrl> {
        let Self { driver, verification, root_cert } = self;
        let tls = tls::connector(verification, root_cert)?;
        Ok(PostgresConfig { driver, tls, schema: SchemaName::default(), look_interval: LOOK_INTERVAL })
    }

    /// Returns whether the sslmode verifies the server's certificate.
    pub fn verifies_server(&self) -> bool {
        self.verification != Verification::None
    }

    /// The driver's settings, such as the hosts.
    pub fn driver_config(&self) -> &tokio_postgres::Config {
        &self.driver
    }

    /// Parses a URL. Reads no file.
    pub fn parse(url: &str) -> Result<Self, InvalidUrl> {
        if !(url.starts_with("postgres://") || url.starts_with("postgresql://")) {
            return Err(InvalidUrl::Scheme);
        }
        let (rest, ssl) = SslParameters::split_from(url);
        let mut driver = tokio_postgres::Config::from_str(&rest).map_err(|error| parse_error(url, &error))?;
        check_hosts(&driver)?;
        let mode = ssl.mode.as_deref().unwrap_or("prefer");
        let (ssl_mode, verification) = match mode {
            "disable" => (SslMode::Disable, Verification::None),
            "prefer" => (SslMode::Prefer, Verification::None),
            "require" => (SslMode::Require, Verification::None),
            "verify-ca" => (SslMode::Require, Verification::Authority),
            "verify-full" => (SslMode::Require, Verification::Host),
            _ => return Err(InvalidUrl::SslMode),
        };
        if ssl.root_cert.is_some() && verification == Verification::None {
            return Err(InvalidUrl::UnusedCertificates(mode.to_owned()));
        }
        driver.ssl_mode(ssl_mode);
        if driver.get_connect_timeout().is_none() {
            driver.connect_timeout(CONNECT_TIMEOUT);
        }
        if driver.get_application_name().is_none() {
            driver.application_name("posthaste");
        }
        driver.tcp_user_timeout(TCP_USER_TIMEOUT);
        driver.keepalives_idle(KEEPALIVE_IDLE);
        Ok(Self { driver, verification, root_cert: ssl.root_cert })
    }
}

/// Checks that there is a host, and a port for each. The driver would report this only when it connects.
fn check_hosts(driver: &tokio_postgres::Config) -> Result<(), InvalidUrl> {
    let hosts = driver.get_hosts().len().max(driver.get_hostaddrs().len());
    match driver.get_ports().len() {
        _ if hosts == 0 => Err(InvalidUrl::Malformed("it names no host".to_owned())),
        0 | 1 => Ok(()),
        ports if ports == hosts => Ok(()),
        ports => Err(InvalidUrl::Malformed(format!("it names {hosts} hosts and {ports} ports"))),
    }
}

/// The start of the driver's message about an unknown parameter, which quotes the parameter's name.
const UNKNOWN_OPTION: &str = "unknown option";

/// Converts the driver's parse error. Replaces the name of an unknown parameter by its position.
fn parse_error(url: &str, error: &tokio_postgres::Error) -> InvalidUrl {
    let message = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let is_unknown = |pair: &str| {
        // The URL has a user, because the driver ends the user at the first @, which may be in the parameter.
        let (rest, ssl) = SslParameters::split_from(&format!("postgres://user@host/?{pair}"));
        ssl.is_empty() && tokio_postgres::Config::from_str(&rest).is_err()
    };
    match (1..).zip(query.split('&')).find(|(_, pair)| is_unknown(pair)) {
        Some((position, _)) if message.starts_with(UNKNOWN_OPTION) => InvalidUrl::Parameter(position),
        _ if message.starts_with(UNKNOWN_OPTION) => {
            InvalidUrl::Malformed("a parameter after the ? is not known".to_owned())
        }
        _ => InvalidUrl::Malformed(message),
    }
}

impl PostgresConfig {
    /// Opens a connection outside the pools. Returns none on a timeout; the driver's own timeout covers only the TCP
    /// connection.
    #[expect(
        clippy::disallowed_methods,
        reason = "bounds a wait for the network; nothing is scheduled by it"
    )]
    pub(crate) async fn connect(&self) -> Option<Result<(Client, DriverConnection), tokio_postgres::Error>> {
        tokio::time::timeout(SESSION_TIMEOUT, self.driver.connect(self.tls.clone())).await.ok()
    }
}

/// The half of a connection that must be polled for the client to make progress.
pub(crate) type DriverConnection = Connection<Socket, <tls::Connector as MakeTlsConnect<Socket>>::Stream>;

/// The URL parameters `sslmode` and `sslrootcert`. They are parsed here because the driver knows neither `sslrootcert` nor
/// the modes that verify the server.
#[derive(Default)]
struct SslParameters {
    mode: Option<String>,
    root_cert: Option<PathBuf>,
}

impl SslParameters {
    fn is_empty(&self) -> bool {
        self.mode.is_none() && self.root_cert.is_none()
    }

    /// Splits the TLS parameters from a URL, and returns the URL without them.
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

    /// The error message of an invalid URL.
    fn message(url: &str) -> String {
        PostgresConfig::from_url(url).err().expect("the URL is invalid").to_string()
    }

    #[test]
    fn a_url_may_name_several_hosts_and_require_one_that_accepts_writes() {
        let url = "postgres://app@one:5432,two:5433/shop?target_session_attrs=read-write&sslmode=disable";
        let config = PostgresConfig::from_url(url).unwrap().driver;
        assert_eq!((config.get_hosts().len(), config.get_ports()), (2, &[5432, 5433][..]));
        assert_eq!(config.get_ssl_mode(), SslMode::Disable);
        assert_eq!(config.get_target_session_attrs(), tokio_postgres::config::TargetSessionAttrs::ReadWrite);
    }

    #[test]
    fn modes_that_require_tls_never_connect_without_it() {
        for mode in ["require", "verify-ca", "verify-full"] {
            let config =
                PostgresConfig::from_url(&format!("postgres://app@one/shop?sslmode={mode}")).unwrap();
            assert_eq!(config.driver.get_ssl_mode(), SslMode::Require, "{mode}");
        }
    }

    #[test]
    fn the_message_of_an_invalid_url_names_the_rule() {
        assert!(message("mysql://app@one/shop").contains("postgres://"));
        assert!(message("postgres://app@one/shop?sslmode=maybe").contains("verify-full"));
        assert!(message("postgres://app@one/shop?sslrootcert=/x").contains("verifies nothing"));
        let missing = message("postgres://app@one/shop?sslmode=verify-full&sslrootcert=%2Fno%2Fsuch%20file");
        assert!(missing.contains("/no/such file"), "{missing}");
    }

    #[test]
    fn the_message_of_an_invalid_url_repeats_nothing_that_could_be_a_password() {
        for (url, expected) in [
            ("postgres://app:hunter2@one:not-a-port/shop", "invalid value for option `port`"),
            ("postgres://app@one/shop?connect_timeout=hunter2", "invalid value for option `connect_timeout`"),
            ("postgres://app@one/shop?sslmode=disable&hunter2=yes", "parameter 2 after the ? is not known"),
            ("postgres://app:@?hunter2=@one/shop", "parameter 1 after the ? is not known"),
            ("postgres://app@one/shop?hunter2", "unterminated parameter"),
            ("postgres://app@one/shop?sslmode=hunter2", "sslmode is not known"),
            ("postgres:///hunter2", "names no host"),
            ("postgres://one,two/hunter2?port=1,2,3", "2 hosts and 5 ports"),
        ] {
            let message = message(url);
            assert!(message.contains(expected) && !message.contains("hunter2"), "{url}: {message}");
            assert!(PostgresUrl::parse(url).is_err(), "{url}");
        }
    }

    #[test]
    fn parsing_a_url_reads_no_file() {
        let url = "postgres://app@one/shop?sslmode=verify-full&sslrootcert=/no/such/file";
        let parsed = PostgresUrl::parse(url).unwrap();
        assert!(parsed.into_config().is_err());
    }
}
