//! The database URL: a SQLite file or a PostgreSQL server.

use std::net::IpAddr;
use std::path::PathBuf;

use posthaste::tokio_postgres::config::{Host, SslMode};
use posthaste::{Database, InvalidUrl, PostgresUrl};

use super::parse::path;

/// A parsed database URL. No file has been read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DatabaseUrl {
    /// The path of a SQLite file, relative to the working directory if it is not absolute.
    Sqlite(PathBuf),
    /// The URL of a PostgreSQL server, which may name several hosts.
    Postgres(Box<PostgresUrl>),
}

impl DatabaseUrl {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.starts_with("sqlite:") {
            return sqlite_path(text).map(Self::Sqlite);
        }
        let Some(rest) = text.strip_prefix("postgres://").or_else(|| text.strip_prefix("postgresql://"))
        else {
            return Err("events are stored in SQLite or PostgreSQL, and this names neither".to_owned());
        };
        if rest.is_empty() {
            return Err("it names no host and no database".to_owned());
        }
        if rest.chars().any(|char| char.is_whitespace() || char.is_control()) {
            return Err("it contains a space or a control character; write them percent-encoded".to_owned());
        }
        // The driver takes the first @ as the end of the password.
        if rest.split(['/', '?']).next().is_some_and(|authority| authority.matches('@').count() > 1) {
            return Err("it contains more than one @; write an @ in the password as %40".to_owned());
        }
        let url = PostgresUrl::parse(text).map_err(|error| match error {
            InvalidUrl::Malformed(reason) => reason,
            error => error.to_string(),
        })?;
        Ok(Self::Postgres(Box::new(url)))
    }

    /// Returns the database, not opened. Reads the certificates that a PostgreSQL URL names.
    pub fn database(&self) -> Result<Database, InvalidUrl> {
        match self {
            Self::Sqlite(path) => Ok(Database::sqlite(path)),
            Self::Postgres(url) => Database::parsed_postgres((**url).clone()),
        }
    }

    /// Returns whether the URL reaches the database without a network: through a file, a socket or a loopback address.
    pub fn is_on_this_host(&self) -> bool {
        let Self::Postgres(url) = self else { return true };
        let driver = url.driver_config();
        let is_remote = |host: &Host| matches!(host, Host::Tcp(name) if !is_loopback_name(name));
        !driver.get_hosts().iter().any(is_remote) && driver.get_hostaddrs().iter().all(is_loopback)
    }
}

impl DatabaseUrl {
    /// Returns what others on the network can read or forge, and what to write in the URL, if the database is on another
    /// machine and the connection does not verify it. The connection carries payloads and the signing secrets.
    pub fn exposure(&self) -> Option<String> {
        let Self::Postgres(url) = self else { return None };
        if self.is_on_this_host() || url.verifies_server() {
            return None;
        }
        let (mode, risk) = match url.driver_config().get_ssl_mode() {
            SslMode::Disable => (
                "disable",
                "every machine on the way to the database can read payloads and the signing secret, and change them",
            ),
            SslMode::Require => (
                "require",
                "a machine on the way can pose as the database, and then read payloads and the signing secret",
            ),
            _ => (
                "prefer",
                "a machine on the way can pose as the database or switch the encryption off, and then read payloads and \
                 the signing secret",
            ),
        };
        Some(format!(
            "the database is on another machine, and sslmode={mode} does not verify it: {risk}; add sslmode=verify-full to \
             database_url, and sslrootcert=FILE if its certificate is not from an authority of the system"
        ))
    }
}

fn is_loopback_name(name: &str) -> bool {
    name.eq_ignore_ascii_case("localhost") || name.parse().is_ok_and(|ip| is_loopback(&ip))
}

fn is_loopback(ip: &IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

/// Parses a SQLite URL. The path after `sqlite://` is taken as it is: nothing is decoded, and there are no parameters.
fn sqlite_path(text: &str) -> Result<PathBuf, String> {
    if text.contains(":memory:") || text.contains("mode=memory") {
        return Err(
            "a database in memory loses every event that it has accepted when the process ends; name a file"
                .to_owned(),
        );
    }
    let Some(file) = text.strip_prefix("sqlite://") else {
        return Err("two slashes are missing after sqlite:".to_owned());
    };
    if file.contains(['?', '#']) {
        return Err("parameters are not supported; remove everything from the ? or # on".to_owned());
    }
    if file.is_empty() || file.ends_with('/') {
        return Err("it names no file".to_owned());
    }
    path(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unescaped_at_sign_in_a_password_is_an_error_with_its_escape() {
        let error = DatabaseUrl::parse("postgres://app:hunter@2@db.example/p").unwrap_err();
        assert!(error.contains("%40") && !error.contains("hunter"), "{error}");
        assert!(DatabaseUrl::parse("postgres://app:hunter%402@db.example/p?options=a@b").is_ok());
    }

    #[test]
    fn database_is_on_this_host_if_only_this_host_can_reach_it() {
        let is_on_this_host = |url: &str| DatabaseUrl::parse(url).unwrap().is_on_this_host();
        for url in [
            "sqlite://posthaste.db",
            "postgres://127.0.0.1/p",
            "postgres://user:p%40ss@localhost:5432/p",
            "postgresql://[::1]:5432,127.0.0.2/p",
            "postgres:///p?host=/run/postgresql",
            "postgres://%2Frun%2Fpostgresql/p",
            "postgres://localhost/p?hostaddr=127.0.0.1",
        ] {
            assert!(is_on_this_host(url), "{url}");
        }
        for url in [
            "postgres://db.example/p",
            "postgres://127.0.0.1,db.example/p",
            "postgres:///p?host=db.example",
            "postgres://localhost/p?hostaddr=10.1.2.3",
        ] {
            assert!(!is_on_this_host(url), "{url}");
        }
    }
    #[test]
    fn exposure_of_a_database_on_another_machine_is_named_unless_the_server_is_verified() {
        let exposure = |url: &str| DatabaseUrl::parse(url).unwrap().exposure();
        for (url, parts) in [
            ("postgres://app:hunter2@db.example/shop", ["sslmode=prefer", "switch the encryption off"]),
            (
                "postgres://app:hunter2@db.example/shop?sslmode=prefer",
                ["sslmode=prefer", "pose as the database"],
            ),
            (
                "postgres://app:hunter2@10.0.0.7/shop?sslmode=disable",
                ["sslmode=disable", "every machine on the way"],
            ),
            (
                "postgres://app:hunter2@localhost,db.example/shop?sslmode=require",
                ["sslmode=require", "pose as"],
            ),
        ] {
            let text = exposure(url).expect(url);
            assert!(parts.iter().all(|part| text.contains(part)), "{url}: {text}");
            assert!(text.contains("signing secret") && text.contains("sslmode=verify-full"), "{text}");
            assert!(!text.contains("hunter2"), "{text}");
        }
        for url in [
            "sqlite://posthaste.db",
            "postgres://app@localhost/shop",
            "postgres://app@127.0.0.1/shop?sslmode=disable",
            "postgres:///shop?host=/run/postgresql",
            "postgres://app@db.example/shop?sslmode=verify-full",
            "postgres://app@db.example/shop?sslmode=verify-ca",
        ] {
            assert_eq!(exposure(url), None, "{url}");
        }
    }
}
