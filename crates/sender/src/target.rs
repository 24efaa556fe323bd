//! The target of a request: the origin to connect to, and the authority and path to request.

use std::sync::Arc;

use http::Request;
use http::header::{HOST, HeaderValue};
use http::uri::{Authority, PathAndQuery, Scheme, Uri};
use posthaste_domain::{DestinationUrl, ErrorClass};
use url::{Host, Position, Url};

use crate::failure::Failure;

/// The receiver at the other end of a connection: scheme, host and port. Destinations share a connection only if their
/// origins are equal.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Origin {
    pub(crate) secure: bool,
    /// A name has no trailing dot: the resolver treats every name as fully qualified.
    pub(crate) host: Host<String>,
    pub(crate) port: u16,
}

/// A destination URL, split into the parts that connections and requests need. Requests share the parts without copying.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) origin: Arc<Origin>,
    /// The path and query, as HTTP/1.1 requests them.
    path: Uri,
    /// The value of the `host` header of HTTP/1.1.
    host: HeaderValue,
    /// The absolute URL, as HTTP/2 requests it.
    absolute: Uri,
}

impl Target {
    /// Splits a destination URL. Validates it again, because another program may have written to the store.
    pub(crate) fn parse(destination: &DestinationUrl) -> Result<Self, Failure> {
        let url = destination.to_url().map_err(|error| unsendable_failure(&error))?;
        let origin = Origin::from_url(&url)?;
        let authority = Authority::try_from(&url[Position::BeforeHost..Position::AfterPort]);
        let authority = authority.map_err(|error| unsendable_failure(&error))?;
        let path = PathAndQuery::try_from(&url[Position::BeforePath..Position::AfterQuery]);
        let path = path.map_err(|error| unsendable_failure(&error))?;
        let mut parts = http::uri::Parts::default();
        parts.scheme = Some(if origin.secure { Scheme::HTTPS } else { Scheme::HTTP });
        parts.authority = Some(authority.clone());
        parts.path_and_query = Some(path.clone());
        Ok(Self {
            origin: Arc::new(origin),
            path: Uri::from(path),
            host: HeaderValue::from_str(authority.as_str()).expect("an authority is visible ASCII"),
            absolute: Uri::from_parts(parts).expect("scheme, authority and path make a URI"),
        })
    }

    /// Sets the URI to the path and adds a `host` header, as HTTP/1.1 requires.
    pub(crate) fn set_http1_target<B>(&self, request: &mut Request<B>) {
        *request.uri_mut() = self.path.clone();
        request.headers_mut().insert(HOST, self.host.clone());
    }

    /// Sets the URI to the absolute URL and removes the `host` header, as HTTP/2 requires.
    pub(crate) fn set_http2_target<B>(&self, request: &mut Request<B>) {
        *request.uri_mut() = self.absolute.clone();
        request.headers_mut().remove(HOST);
    }
}

impl Origin {
    fn from_url(url: &Url) -> Result<Self, Failure> {
        let host = match url.host() {
            Some(Host::Domain(name)) => Host::Domain(name.strip_suffix('.').unwrap_or(name).to_owned()),
            Some(Host::Ipv4(address)) => Host::Ipv4(address),
            Some(Host::Ipv6(address)) => Host::Ipv6(address),
            None => return Err(unsendable_failure(&"destination_url has no host")),
        };
        let port =
            url.port_or_known_default().ok_or_else(|| unsendable_failure(&"destination_url has no port"))?;
        Ok(Self { secure: url.scheme() == "https", host, port })
    }
}

fn unsendable_failure(why: &dyn std::fmt::Display) -> Failure {
    Failure::new(ErrorClass::Unsendable, why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn target(url: &str) -> Target {
        Target::parse(&DestinationUrl::parse(url).unwrap()).unwrap()
    }

    #[test]
    fn url_is_split_into_origin_and_request_target() {
        let target = target("https://Example.com.:8443/a%20b/?q=1&r");
        let host = Host::Domain("example.com".to_owned());
        assert_eq!(*target.origin, Origin { secure: true, host, port: 8443 });
        let mut request = Request::new(());
        target.set_http1_target(&mut request);
        assert_eq!(request.uri(), "/a%20b/?q=1&r");
        assert_eq!(request.headers()[HOST], "example.com.:8443");
        target.set_http2_target(&mut request);
        assert_eq!(request.uri(), "https://example.com.:8443/a%20b/?q=1&r");
        assert!(!request.headers().contains_key(HOST));
    }

    #[test]
    fn default_port_is_dialled_and_left_out_of_the_authority() {
        let target = target("http://[::1]");
        assert_eq!(target.origin.port, 80);
        assert_eq!(target.host, "[::1]");
    }

    #[test]
    fn invalid_stored_url_is_unsendable_and_the_failure_names_the_rule() {
        for stored in ["", "http://", "ftp://a.example/", "http://u:p@a.example/", "http://a.example/#x"] {
            let failure = Target::parse(&DestinationUrl::from_stored(stored.to_owned())).unwrap_err();
            assert_eq!(failure.class, ErrorClass::Unsendable, "{stored}");
            assert!(failure.detail.contains("destination_url"), "{failure:?}");
        }
    }

    proptest! {
        #[test]
        fn every_accepted_url_makes_a_valid_request_target(
            host in "[a-z0-9.:\\[\\]%_-]{1,20}", rest in "[ -~\u{80}-\u{2fff}]{0,60}"
        ) {
            if let Ok(url) = DestinationUrl::parse(&format!("http://{host}/{rest}")) {
                let target = Target::parse(&url);
                prop_assert!(target.is_ok(), "{url}: {target:?}");
                let mut request = Request::new(());
                target.unwrap().set_http2_target(&mut request);
                prop_assert_eq!(request.uri().to_string(), url.as_str());
            }
        }
    }
}
