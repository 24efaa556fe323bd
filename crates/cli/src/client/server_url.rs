//! The URL of a server, and of the resources of its API.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use url::Url;

use super::ClientError;

/// One of the APIs of a server, by its path below the server's URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ApiPath {
    /// Events, dead letters and destinations.
    Outbox,
    /// Applications, endpoints, event types and messages.
    Registry,
}

impl ApiPath {
    const fn segments(self) -> [&'static str; 2] {
        match self {
            Self::Outbox => ["v1", "webhook-outbox"],
            Self::Registry => ["api", "v1"],
        }
    }
}

/// The URL of a server: `http` or `https`, with a path if a proxy serves Posthaste under one.
#[derive(Debug, Clone)]
pub(crate) struct ServerUrl(Url);

impl ServerUrl {
    /// Parses a URL. Without a scheme, `http` is assumed.
    pub(crate) fn parse(text: &str) -> Result<Self, ClientError> {
        let invalid = |reason: &str| ClientError::InvalidServerUrl {
            text: without_credentials(text),
            reason: reason.to_owned(),
        };
        let absolute = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
        let url = Url::parse(&absolute).map_err(|error| invalid(&error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(invalid("the scheme must be http or https"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(invalid("a key belongs in --key"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(invalid("it must end with its path, without a query or fragment"));
        }
        Ok(Self(url))
    }

    /// Returns the URL at which clients on the same host reach a server that listens at this address.
    pub(crate) fn listening_at(address: SocketAddr) -> Self {
        let ip = match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        let url = format!("http://{}/", SocketAddr::new(ip, address.port()));
        Self(Url::parse(&url).expect("an address with a port is a valid URL"))
    }

    pub(super) fn as_url(&self) -> &Url {
        &self.0
    }

    /// Returns the URL of a resource. Escapes each segment of `path`, because event ids may contain slashes.
    pub(super) fn resource(&self, api: ApiPath, path: &[&str], query: &[(&str, &str)]) -> Url {
        let mut url = self.0.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(api.segments()).extend(path);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        url
    }
}

/// Replaces everything before the last `@`, which may contain a password.
fn without_credentials(text: &str) -> String {
    match text.rsplit_once('@') {
        Some((_, rest)) => format!("…@{rest}"),
        None => text.to_owned(),
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str().trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use url::Position;

    use super::*;

    /// Returns the path and the query of a resource's URL.
    fn resource(server: &str, path: &[&str], query: &[(&str, &str)]) -> String {
        let url = ServerUrl::parse(server).unwrap().resource(ApiPath::Outbox, path, query);
        url[Position::BeforePath..].to_owned()
    }

    #[test]
    fn resources_are_below_the_path_of_the_server() {
        assert_eq!(resource("http://127.0.0.1:8600", &["overview"], &[]), "/v1/webhook-outbox/overview");
        assert_eq!(resource("https://ops.example/hooks/", &["dlq"], &[]), "/hooks/v1/webhook-outbox/dlq");
    }

    #[test]
    fn id_is_escaped_within_its_path_segment() {
        let path = resource("localhost:8600", &["events", "a/../b?c#d%"], &[]);
        assert_eq!(path, "/v1/webhook-outbox/events/a%2F..%2Fb%3Fc%23d%25");
    }

    #[test]
    fn query_values_are_escaped() {
        let query = [("destination", "https://shop.example/a?b=c&d"), ("limit", "50")];
        let path = resource("localhost", &["events"], &query);
        let expected =
            "/v1/webhook-outbox/events?destination=https%3A%2F%2Fshop.example%2Fa%3Fb%3Dc%26d&limit=50";
        assert_eq!(path, expected);
    }

    #[test]
    fn server_on_all_addresses_is_reached_over_loopback() {
        let url = |address: &str| ServerUrl::listening_at(address.parse().unwrap()).to_string();
        assert_eq!(url("127.0.0.1:8600"), "http://127.0.0.1:8600");
        assert_eq!(url("0.0.0.0:80"), "http://127.0.0.1");
        assert_eq!(url("[::]:8600"), "http://[::1]:8600");
    }

    #[test]
    fn invalid_server_urls_are_rejected_without_repeating_a_password() {
        for invalid in
            ["ftp://ops.example", "http://", "http://ops.example/?a=1", "http://me:hunter2@ops.example"]
        {
            let error = ServerUrl::parse(invalid).unwrap_err();
            assert!(error.is_usage_error() && !error.to_string().contains("hunter2"), "{error}");
        }
    }
}
