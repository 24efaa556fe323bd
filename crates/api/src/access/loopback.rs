//! The loopback check that replaces API keys.
//!
//! The server listens on a loopback address, so only this machine can connect. The remaining threat is a browser on this
//! machine: a foreign page can reach the server through a host name that resolves to a loopback address (DNS rebinding), or
//! by posting a form to it (cross-site request forgery). A reverse proxy on this machine would open the server to its own
//! clients, so a request with the header of a proxy is rejected too.

use std::net::{IpAddr, SocketAddr};

use http::uri::Authority;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header};

/// Accepts a request that was addressed to this machine and was not sent by a foreign web page.
///
/// The error says why the request is rejected and how to gain access.
pub(super) fn check_request(
    listen: SocketAddr,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<(), String> {
    if !listen.ip().to_canonical().is_loopback() {
        return Err(format!(
            "there are no API keys, and {listen} is not a loopback address; set API keys to serve other machines"
        ));
    }
    if let Some(name) = headers.keys().find(|name| is_forwarding_header(name)) {
        return Err(format!(
            "the request came through a proxy: it has the header {name}. Without API keys the server accepts only direct \
             requests from this machine; set API keys to serve others through a proxy"
        ));
    }
    // A request target may name a host too, as in HTTP/2 and for proxies. Both must be loopback.
    let host_header = single_value(headers, header::HOST).and_then(parse_authority);
    let Some(host) =
        host_header.or_else(|| uri.authority().cloned().filter(|_| !headers.contains_key(header::HOST)))
    else {
        return Err(format!("the request names no host, or more than one; use http://{listen}"));
    };
    // Any port is accepted: a forwarded port differs from ours, and a page cannot choose the Host that its browser sends.
    if let Some(host) =
        [Some(&host), uri.authority()].into_iter().flatten().find(|host| !is_loopback(host.host()))
    {
        return Err(format!(
            "without API keys the server accepts only requests to a loopback address, and {:?} is not one; use \
             http://{listen}, or set API keys",
            host.as_str()
        ));
    }
    if headers.contains_key(header::ORIGIN) {
        let origin = single_value(headers, header::ORIGIN).and_then(|origin| origin.strip_prefix("http://"));
        if origin.and_then(parse_authority).is_none_or(|origin| !is_same_origin(&origin, &host)) {
            return Err("requests from other web pages are rejected while there are no API keys".to_owned());
        }
    }
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    if !method.is_safe() && !matches!(site, None | Some(b"same-origin" | b"none")) {
        return Err("changes from other web pages are rejected while there are no API keys".to_owned());
    }
    Ok(())
}

/// Returns whether proxies add this header to the requests that they forward.
fn is_forwarding_header(name: &HeaderName) -> bool {
    matches!(name.as_str(), "forwarded" | "via" | "x-real-ip") || name.as_str().starts_with("x-forwarded-")
}

/// Returns a header's text if the header was sent exactly once.
fn single_value(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    value.to_str().ok()
}

/// Parses a host with an optional port. Rejects user information.
fn parse_authority(text: &str) -> Option<Authority> {
    text.parse().ok().filter(|_| !text.contains('@'))
}

fn is_same_origin(origin: &Authority, host: &Authority) -> bool {
    let port = |authority: &Authority| authority.port_u16().unwrap_or(80);
    origin.host().eq_ignore_ascii_case(host.host()) && port(origin) == port(host)
}

fn is_loopback(host: &str) -> bool {
    let literal = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost")
        || literal.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTEN: &str = "127.0.0.1:8600";

    fn check(method: &Method, headers: &[(&'static str, &'static str)]) -> Result<(), String> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        check_request(LISTEN.parse().unwrap(), method, &Uri::from_static("/x"), &map)
    }

    #[test]
    fn every_spelling_of_a_loopback_host_is_accepted() {
        for host in [
            "localhost:8600",
            "LOCALHOST:8600",
            "localhost",
            "127.0.0.1:8600",
            "127.8.9.10:8600",
            "[::1]:8600",
            "[::1]",
            "[::ffff:127.0.0.1]:8600",
            "localhost:9000",
        ] {
            assert_eq!(check(&Method::GET, &[("host", host)]), Ok(()), "{host}");
        }
    }

    #[test]
    fn other_hosts_are_rejected_with_a_url_that_works() {
        for host in [
            "evil.example:8600",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1:8600",
            "0.0.0.0:8600",
            "[::]:8600",
            "192.168.1.1",
            "user@localhost",
            "localhost:8600/path",
            "",
            "2130706433",
            "0x7f.1",
            "[::1",
        ] {
            let error = check(&Method::GET, &[("host", host)]).unwrap_err();
            assert!(error.contains("http://127.0.0.1:8600"), "{host}: {error}");
        }
        assert!(check(&Method::GET, &[]).is_err(), "no host");
        assert!(check(&Method::GET, &[("host", "localhost"), ("host", "localhost")]).is_err(), "two hosts");
    }

    #[test]
    fn a_request_through_a_proxy_is_rejected_with_the_name_of_its_header() {
        for header in
            ["forwarded", "via", "x-real-ip", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"]
        {
            // As nginx sends it: the Host of the upstream, whatever the client asked for.
            let error = check(&Method::GET, &[("host", "127.0.0.1:8600"), (header, "x")]).unwrap_err();
            assert!(error.contains(&format!("header {header}")) && error.contains("set API keys"), "{error}");
        }
    }

    #[test]
    fn an_origin_must_equal_the_host() {
        let from = |origin| check(&Method::GET, &[("host", "localhost:8600"), ("origin", origin)]);
        assert_eq!(from("http://localhost:8600"), Ok(()));
        assert_eq!(from("http://LOCALHOST:8600"), Ok(()));
        for origin in [
            "http://localhost:3000",
            "http://127.0.0.1:8600",
            "https://localhost:8600",
            "http://evil.example",
            "null",
            "",
            "http://localhost",
            "http://x@localhost:8600",
        ] {
            assert!(from(origin).is_err(), "{origin}");
        }
        let plain = [("host", "localhost"), ("origin", "http://localhost:80")];
        assert_eq!(check(&Method::GET, &plain), Ok(()));
    }

    #[test]
    fn cross_site_changes_are_rejected_and_cross_site_reads_are_not() {
        let site =
            |method: &Method, site| check(method, &[("host", "localhost:8600"), ("sec-fetch-site", site)]);
        for own_site in ["same-origin", "none"] {
            assert_eq!(site(&Method::POST, own_site), Ok(()), "{own_site}");
        }
        for other in ["cross-site", "same-site", "anything"] {
            assert!(site(&Method::POST, other).is_err(), "{other}");
            assert_eq!(site(&Method::GET, other), Ok(()), "{other}");
        }
    }

    #[test]
    fn a_host_in_the_request_target_is_checked_too() {
        let to = |target: &'static str, host: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            host.map(|host| headers.insert("host", host.parse().unwrap()));
            check_request(LISTEN.parse().unwrap(), &Method::GET, &Uri::from_static(target), &headers)
        };
        assert_eq!(to("http://localhost:8600/x", None), Ok(()));
        assert_eq!(to("http://127.0.0.1/x", Some("localhost:8600")), Ok(()));
        assert!(to("http://evil.example/x", None).is_err());
        assert!(to("http://evil.example/x", Some("localhost:8600")).is_err());
        assert!(to("http://localhost/x", Some("evil.example")).is_err());
        assert!(to("http://localhost/x", Some("not a host")).is_err());
    }

    #[test]
    fn every_request_to_an_address_that_others_can_reach_is_rejected() {
        let mut headers = HeaderMap::new();
        headers.insert("host", "localhost:8600".parse().unwrap());
        let error =
            check_request("0.0.0.0:8600".parse().unwrap(), &Method::GET, &Uri::from_static("/"), &headers)
                .unwrap_err();
        assert!(error.contains("API keys"), "{error}");
    }
}
