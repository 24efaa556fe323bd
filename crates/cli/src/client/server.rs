//! Where a server is: its URL, read once, and the addresses of its resources.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use url::{Host, Url};

use super::ClientError;

/// Under which the API lives.
const ROOT: [&str; 2] = ["v1", "webhook-outbox"];

#[derive(Debug, Clone)]
pub(crate) struct Server(Url);

impl Server {
    /// An absolute URL, with a path if a proxy serves it under one. Without a scheme, `http` is meant.
    pub(crate) fn parse(text: &str) -> Result<Self, ClientError> {
        let refused = |reason: &str| ClientError::Server(shown(text), reason.to_owned());
        let absolute = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let url = Url::parse(&absolute).map_err(|error| refused(&error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(refused("only http and https are spoken"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(refused("a key belongs in --key"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(refused("nothing may follow its path"));
        }
        Ok(Self(url))
    }

    /// The server that listens at this address, seen from the same machine.
    pub(crate) fn listening_at(address: SocketAddr) -> Self {
        let ip = match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        let url = format!("http://{}/", SocketAddr::new(ip, address.port()));
        Self(Url::parse(&url).expect("an address and a port are a URL"))
    }

    pub(super) fn is_tls(&self) -> bool {
        self.0.scheme() == "https"
    }

    pub(super) fn host(&self) -> Host<&str> {
        self.0.host().expect("http and https URLs have a host")
    }

    pub(super) fn port(&self) -> u16 {
        self.0.port_or_known_default().expect("http and https have ports")
    }

    /// Host, and port where it is not the scheme's.
    pub(super) fn authority(&self) -> String {
        match self.0.port() {
            Some(port) => format!("{}:{port}", self.host()),
            None => self.host().to_string(),
        }
    }

    /// The path and query of a resource. Ids may hold slashes: they stay within their part.
    pub(super) fn target(&self, path: &[&str], query: &[(&str, &str)]) -> String {
        let mut url = self.0.clone();
        if let Ok(mut parts) = url.path_segments_mut() {
            parts.pop_if_empty().extend(ROOT).extend(path);
        }
        if query.is_empty() {
            return url.path().to_owned();
        }
        url.query_pairs_mut().extend_pairs(query);
        format!("{}?{}", url.path(), url.query().unwrap_or_default())
    }
}

/// Without what stands before an `@`: it may be a password.
fn shown(text: &str) -> String {
    match text.rsplit_once('@') {
        Some((_, rest)) => format!("…@{rest}"),
        None => text.to_owned(),
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str().trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(server: &str, path: &[&str], query: &[(&str, &str)]) -> String {
        Server::parse(server).unwrap().target(path, query)
    }

    #[test]
    fn resources_are_found_under_any_prefix() {
        assert_eq!(target("http://127.0.0.1:8600", &["overview"], &[]), "/v1/webhook-outbox/overview");
        assert_eq!(target("https://ops.example/hooks/", &["dlq"], &[]), "/hooks/v1/webhook-outbox/dlq");
    }

    #[test]
    fn an_id_cannot_leave_its_part_of_the_path() {
        let path = target("localhost:8600", &["events", "a/../b?c#d%"], &[]);
        assert_eq!(path, "/v1/webhook-outbox/events/a%2F..%2Fb%3Fc%23d%25");
    }

    #[test]
    fn filters_are_escaped() {
        let query = [("destination", "https://shop.example/a?b=c&d"), ("limit", "50")];
        let path = target("localhost", &["events"], &query);
        let expected =
            "/v1/webhook-outbox/events?destination=https%3A%2F%2Fshop.example%2Fa%3Fb%3Dc%26d&limit=50";
        assert_eq!(path, expected);
    }

    #[test]
    fn a_server_on_all_addresses_is_asked_on_loopback() {
        let at = |text: &str| Server::listening_at(text.parse().unwrap()).to_string();
        assert_eq!(at("127.0.0.1:8600"), "http://127.0.0.1:8600");
        assert_eq!(at("0.0.0.0:80"), "http://127.0.0.1");
        assert_eq!(at("[::]:8600"), "http://[::1]:8600");
    }

    #[test]
    fn what_is_no_server_is_refused_without_repeating_a_password() {
        for bad in
            ["ftp://ops.example", "http://", "http://ops.example/?a=1", "http://me:hunter2@ops.example"]
        {
            let error = Server::parse(bad).unwrap_err();
            assert!(error.is_usage() && !error.to_string().contains("hunter2"), "{error}");
        }
    }
}
