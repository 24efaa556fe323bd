//! Which store, and where it is.

use std::net::IpAddr;
use std::path::PathBuf;

use super::redacted::Redacted;
use super::values::path;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DatabaseUrl {
    /// A file, relative to the working directory where it is not absolute.
    Sqlite(PathBuf),
    /// The whole URL, for the driver to read: it may name several hosts.
    Postgres(Redacted),
}

impl DatabaseUrl {
    /// Whether only this host can reach it, as far as its URL tells: a file, a socket, or a loopback address.
    pub fn is_here(&self) -> bool {
        match self {
            Self::Sqlite(_) => true,
            Self::Postgres(url) => hosts(url.reveal()).iter().all(|host| is_loopback(host)),
        }
    }

    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.starts_with("sqlite:") {
            return sqlite(text).map(Self::Sqlite);
        }
        let Some(rest) = text.strip_prefix("postgres://").or_else(|| text.strip_prefix("postgresql://"))
        else {
            return Err("events are kept in SQLite or PostgreSQL, and this names neither".to_owned());
        };
        if rest.is_empty() {
            return Err("it names no host and no database".to_owned());
        }
        if rest.chars().any(|char| char.is_whitespace() || char.is_control()) {
            return Err("it holds a space or a control character; write them percent-encoded".to_owned());
        }
        posthaste::check_postgres_url(text)?;
        Ok(Self::Postgres(Redacted::new(text)))
    }
}

/// The hosts of a URL, which may name several; a socket's directory has none.
fn hosts(url: &str) -> Vec<String> {
    let authority = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = authority.split(['/', '?']).next().unwrap_or_default();
    let listed = authority.rsplit_once('@').map_or(authority, |(_, hosts)| hosts);
    let parameter = url.split(['?', '&']).find_map(|part| part.strip_prefix("host="));
    let all = listed.split(',').chain(parameter.into_iter().flat_map(|hosts| hosts.split(',')));
    all.map(without_port)
        .filter(|host| !host.is_empty() && !host.starts_with(['/', '%']))
        .map(str::to_owned)
        .collect()
}

fn without_port(host: &str) -> &str {
    match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((v6, _)) => v6,
        None => host.split(':').next().unwrap_or_default(),
    }
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

/// What follows `sqlite://` is the path as it is: nothing is decoded, and there are no parameters.
fn sqlite(text: &str) -> Result<PathBuf, String> {
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
        return Err("parameters are not taken; remove everything from the ? or # on".to_owned());
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
    fn a_store_is_here_when_only_this_host_can_reach_it() {
        let here = |url: &str| DatabaseUrl::parse(url).unwrap().is_here();
        for url in [
            "sqlite://posthaste.db",
            "postgres://127.0.0.1/p",
            "postgres://user:p%40ss@localhost:5432/p",
            "postgresql://[::1]:5432,127.0.0.2/p",
            "postgres:///p?host=/run/postgresql",
            "postgres://%2Frun%2Fpostgresql/p",
        ] {
            assert!(here(url), "{url}");
        }
        for url in
            ["postgres://db.example/p", "postgres://127.0.0.1,db.example/p", "postgres:///p?host=db.example"]
        {
            assert!(!here(url), "{url}");
        }
    }
}
