//! Where a request goes, taken apart once: the receiver to connect to and the path to ask it for.

use std::sync::Arc;

use http::Request;
use http::header::{HOST, HeaderValue};
use http::uri::{Authority, PathAndQuery, Scheme, Uri};
use posthaste_domain::{DestinationUrl, ErrorClass};
use url::{Host, Position, Url};

use crate::failure::Failure;

/// Whom a connection speaks to. Connections are shared by all destinations of one origin, and by no others.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Origin {
    pub(crate) secure: bool,
    /// A name is without its final dot: it is fully qualified in any case.
    pub(crate) host: Host<String>,
    pub(crate) port: u16,
}

#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) origin: Arc<Origin>,
    authority: Authority,
    path: PathAndQuery,
}

impl Target {
    /// Judged again, because a store may hold what was never accepted here.
    pub(crate) fn of(destination: &DestinationUrl) -> Result<Self, Failure> {
        let url = destination.to_url().map_err(|error| unsendable(&error))?;
        let authority = Authority::try_from(&url[Position::BeforeHost..Position::AfterPort]);
        let path = PathAndQuery::try_from(&url[Position::BeforePath..Position::AfterQuery]);
        Ok(Self {
            authority: authority.map_err(|error| unsendable(&error))?,
            path: path.map_err(|error| unsendable(&error))?,
            origin: Arc::new(Origin::of(&url)?),
        })
    }

    /// Names the receiver as HTTP/1.1 does: a path, and the host in a header.
    pub(crate) fn address_http1<B>(&self, request: &mut Request<B>) {
        let host = HeaderValue::from_str(self.authority.as_str()).expect("an authority is visible ASCII");
        *request.uri_mut() = Uri::from(self.path.clone());
        request.headers_mut().insert(HOST, host);
    }

    /// Names the receiver as HTTP/2 does: in the request target, and in no header.
    pub(crate) fn address_http2<B>(&self, request: &mut Request<B>) {
        let mut parts = http::uri::Parts::default();
        parts.scheme = Some(if self.origin.secure { Scheme::HTTPS } else { Scheme::HTTP });
        parts.authority = Some(self.authority.clone());
        parts.path_and_query = Some(self.path.clone());
        *request.uri_mut() = Uri::from_parts(parts).expect("scheme, authority and path make a URI");
        request.headers_mut().remove(HOST);
    }
}

impl Origin {
    fn of(url: &Url) -> Result<Self, Failure> {
        let host = match url.host() {
            Some(Host::Domain(name)) => Host::Domain(name.strip_suffix('.').unwrap_or(name).to_owned()),
            Some(Host::Ipv4(address)) => Host::Ipv4(address),
            Some(Host::Ipv6(address)) => Host::Ipv6(address),
            None => return Err(unsendable(&"destination_url has no host")),
        };
        let port = url.port_or_known_default().ok_or_else(|| unsendable(&"destination_url has no port"))?;
        Ok(Self { secure: url.scheme() == "https", host, port })
    }
}

fn unsendable(why: &dyn std::fmt::Display) -> Failure {
    Failure::new(ErrorClass::Unsendable, why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn target(url: &str) -> Target {
        Target::of(&DestinationUrl::parse(url).unwrap()).unwrap()
    }

    #[test]
    fn a_url_is_taken_apart_into_whom_to_dial_and_what_to_ask_for() {
        let target = target("https://Example.com.:8443/a%20b/?q=1&r");
        let host = Host::Domain("example.com".to_owned());
        assert_eq!(*target.origin, Origin { secure: true, host, port: 8443 });
        let mut request = Request::new(());
        target.address_http1(&mut request);
        assert_eq!(request.uri(), "/a%20b/?q=1&r");
        assert_eq!(request.headers()[HOST], "example.com.:8443");
        target.address_http2(&mut request);
        assert_eq!(request.uri(), "https://example.com.:8443/a%20b/?q=1&r");
        assert!(!request.headers().contains_key(HOST));
    }

    #[test]
    fn the_default_port_is_dialled_and_not_named() {
        let target = target("http://[::1]");
        assert_eq!(target.origin.port, 80);
        assert_eq!(target.authority, "[::1]");
    }

    #[test]
    fn what_was_stored_unchecked_is_refused_with_the_rule() {
        for stored in ["", "http://", "ftp://a.example/", "http://u:p@a.example/", "http://a.example/#x"] {
            let failure = Target::of(&DestinationUrl::stored(stored.to_owned())).unwrap_err();
            assert_eq!(failure.class, ErrorClass::Unsendable, "{stored}");
            assert!(failure.detail.contains("destination_url"), "{failure:?}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_accepted_can_be_put_on_the_wire(
            host in "[a-z0-9.:\\[\\]%_-]{1,20}", rest in "[ -~\u{80}-\u{2fff}]{0,60}"
        ) {
            if let Ok(url) = DestinationUrl::parse(&format!("http://{host}/{rest}")) {
                let target = Target::of(&url);
                prop_assert!(target.is_ok(), "{url}: {target:?}");
                let mut request = Request::new(());
                target.unwrap().address_http2(&mut request);
                prop_assert_eq!(request.uri().to_string(), url.as_str());
            }
        }
    }
}
