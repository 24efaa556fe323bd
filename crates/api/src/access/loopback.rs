//! Without keys, the network is the fence: only this machine can connect. What is left to fear is a browser on this
//! machine that another page leads here, by a name that resolves to a loopback address or by a form that posts to one.

use std::net::{IpAddr, SocketAddr};

use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Method, Uri, header};

/// The error says why a request is refused, and how to get in.
pub(super) fn judge(
    listen: SocketAddr,
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<(), String> {
    if !listen.ip().to_canonical().is_loopback() {
        return Err(format!(
            "there are no API keys, and {listen} is not a loopback address: set API keys to serve others"
        ));
    }
    // Where the target names a host, as in HTTP/2 and for proxies, that counts as well.
    let header = only(headers, header::HOST).and_then(authority);
    let Some(host) =
        header.or_else(|| uri.authority().cloned().filter(|_| !headers.contains_key(header::HOST)))
    else {
        return Err(format!("the request names no host, or two; use http://{listen}"));
    };
    // Any port: a forwarded one is another than ours, and no page can choose what its browser writes here.
    if let Some(host) =
        [Some(&host), uri.authority()].into_iter().flatten().find(|host| !is_loopback(host.host()))
    {
        return Err(format!(
            "without API keys only requests to a loopback address are answered, and {:?} is none; use http://{listen}, \
             or set API keys",
            host.as_str()
        ));
    }
    if headers.contains_key(header::ORIGIN) {
        let origin = only(headers, header::ORIGIN).and_then(|origin| origin.strip_prefix("http://"));
        if origin.and_then(authority).is_none_or(|origin| !same(&origin, &host)) {
            return Err("requests of other web pages are refused while there are no API keys".to_owned());
        }
    }
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    if !method.is_safe() && !matches!(site, None | Some(b"same-origin" | b"none")) {
        return Err("changes asked for by other web pages are refused while there are no API keys".to_owned());
    }
    Ok(())
}

/// A header's text, where it is sent exactly once.
fn only(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    let mut sent = headers.get_all(name).iter();
    let (Some(value), None) = (sent.next(), sent.next()) else { return None };
    value.to_str().ok()
}

/// A host with or without a port, and nothing else.
fn authority(text: &str) -> Option<Authority> {
    text.parse().ok().filter(|_| !text.contains('@'))
}

fn same(origin: &Authority, host: &Authority) -> bool {
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

    fn judged(method: &Method, headers: &[(&'static str, &'static str)]) -> Result<(), String> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        judge(LISTEN.parse().unwrap(), method, &Uri::from_static("/x"), &map)
    }

    #[test]
    fn a_loopback_host_by_any_name_is_this_machine() {
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
            assert_eq!(judged(&Method::GET, &[("host", host)]), Ok(()), "{host}");
        }
    }

    #[test]
    fn any_other_host_is_refused_with_the_way_in() {
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
            let refusal = judged(&Method::GET, &[("host", host)]).unwrap_err();
            assert!(refusal.contains("http://127.0.0.1:8600"), "{host}: {refusal}");
        }
        assert!(judged(&Method::GET, &[]).is_err(), "no host");
        assert!(judged(&Method::GET, &[("host", "localhost"), ("host", "localhost")]).is_err(), "two hosts");
    }

    #[test]
    fn an_origin_must_be_the_host_itself() {
        let from = |origin| judged(&Method::GET, &[("host", "localhost:8600"), ("origin", origin)]);
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
        assert_eq!(judged(&Method::GET, &plain), Ok(()));
    }

    #[test]
    fn changes_that_another_site_asks_for_are_refused_and_looking_is_not() {
        let site =
            |method: &Method, site| judged(method, &[("host", "localhost:8600"), ("sec-fetch-site", site)]);
        for own in ["same-origin", "none"] {
            assert_eq!(site(&Method::POST, own), Ok(()), "{own}");
        }
        for other in ["cross-site", "same-site", "anything"] {
            assert!(site(&Method::POST, other).is_err(), "{other}");
            assert_eq!(site(&Method::GET, other), Ok(()), "{other}");
        }
    }

    #[test]
    fn a_target_that_names_a_host_is_judged_by_it_too() {
        let to = |target: &'static str, host: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            host.map(|host| headers.insert("host", host.parse().unwrap()));
            judge(LISTEN.parse().unwrap(), &Method::GET, &Uri::from_static(target), &headers)
        };
        assert_eq!(to("http://localhost:8600/x", None), Ok(()));
        assert_eq!(to("http://127.0.0.1/x", Some("localhost:8600")), Ok(()));
        assert!(to("http://evil.example/x", None).is_err());
        assert!(to("http://evil.example/x", Some("localhost:8600")).is_err());
        assert!(to("http://localhost/x", Some("evil.example")).is_err());
        assert!(to("http://localhost/x", Some("not a host")).is_err());
    }

    #[test]
    fn nothing_is_answered_on_an_address_that_others_can_reach() {
        let mut headers = HeaderMap::new();
        headers.insert("host", "localhost:8600".parse().unwrap());
        let refusal = judge("0.0.0.0:8600".parse().unwrap(), &Method::GET, &Uri::from_static("/"), &headers)
            .unwrap_err();
        assert!(refusal.contains("API keys"), "{refusal}");
    }
}
