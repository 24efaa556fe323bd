//! Opens a tunnel through an HTTP proxy: `CONNECT`, RFC 9110 section 9.3.6.

use std::net::SocketAddr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::{CLOSED_EARLY, Credentials, TunnelError, TunnelTarget, io_error, proxy_error, target_error};

/// Upper bound of bytes in a response head.
const HEAD_LEN_MAX: usize = 8 * 1_024;
/// Upper bound of interim responses before the final one.
const INTERIM_MAX: usize = 4;
const HEAD_END: &[u8] = b"\r\n\r\n";

/// Sends a `CONNECT` request and reads response heads until a final one.
pub(super) async fn open_tunnel<S>(
    stream: &mut S,
    target: &TunnelTarget<'_>,
    credentials: Option<&Credentials>,
) -> Result<(), TunnelError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let request = build_request(target, credentials);
    stream.write_all(request.as_bytes()).await.map_err(|error| io_error(&error))?;
    stream.flush().await.map_err(|error| io_error(&error))?;
    for _ in 0..=INTERIM_MAX {
        match parse_status(&read_head(stream).await?) {
            // A successful response has no body, even if its headers announce one: the next bytes belong to the tunnel.
            Some(200..=299) => return Ok(()),
            Some(100 | 102..=199) => {}
            Some(407) if credentials.is_none() => {
                return Err(proxy_error("the egress proxy requires credentials"));
            }
            Some(407) => return Err(proxy_error("the egress proxy does not accept the credentials")),
            Some(status @ (405 | 501)) => return Err(proxy_error(refusal(status))),
            Some(status) => return Err(target_error(refusal(status))),
            None => return Err(proxy_error("the egress proxy's response to CONNECT is not HTTP")),
        }
    }
    Err(proxy_error("the egress proxy sends too many interim responses"))
}

fn refusal(status: u16) -> String {
    format!("the egress proxy responded {status} to CONNECT")
}

fn build_request(target: &TunnelTarget<'_>, credentials: Option<&Credentials>) -> String {
    let authority = match target {
        // Without the IPv6 scope, which is meaningful only on this host.
        TunnelTarget::Address(address) => SocketAddr::new(address.ip(), address.port()).to_string(),
        TunnelTarget::Name { name, port } => format!("{name}:{port}"),
    };
    let authorization = credentials.map_or_else(String::new, |Credentials { user, password }| {
        let pair = [user.as_slice(), password.as_slice()].join(&b':');
        format!("Proxy-Authorization: Basic {}\r\n", STANDARD.encode(pair))
    });
    format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{authorization}\r\n")
}

/// Reads up to and including the empty line, and no byte more. Each read requests only as many bytes as the empty line
/// still lacks, because the bytes after it belong to the tunnel.
async fn read_head<S: AsyncRead + Unpin>(stream: &mut S) -> Result<Vec<u8>, TunnelError> {
    let mut head = Vec::with_capacity(256);
    loop {
        let present = (0..=HEAD_END.len()).rev().find(|len| head.ends_with(&HEAD_END[..*len])).unwrap_or(0);
        let lacking = HEAD_END.len() - present;
        if lacking == 0 {
            return Ok(head);
        }
        if head.len() + lacking > HEAD_LEN_MAX {
            return Err(proxy_error(format!(
                "the egress proxy's response to CONNECT is longer than {HEAD_LEN_MAX} bytes"
            )));
        }
        let mut step = [0; HEAD_END.len()];
        match stream.read(&mut step[..lacking]).await {
            Ok(0) => return Err(target_error(CLOSED_EARLY)),
            Ok(len) => head.extend_from_slice(&step[..len]),
            Err(error) => return Err(io_error(&error)),
        }
    }
}

/// Parses the three digits of a status line `HTTP/1.x 200 …`.
fn parse_status(head: &[u8]) -> Option<u16> {
    match head.strip_prefix(b"HTTP/1.")? {
        [b'0' | b'1', b' ', code @ ..] if matches!(code.get(3), Some(b' ' | b'\r')) => {
            let digits = code[..3].iter().map(|byte| byte.is_ascii_digit().then(|| u16::from(byte - b'0')));
            digits.reduce(|status, digit| Some(status? * 10 + digit?)).flatten()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::scripted::{TunnelAttempt, open_tunnel};

    const TARGET: &str = "192.0.2.7:443";

    async fn connect(response: &[u8]) -> TunnelAttempt {
        open_tunnel("http://proxy.example:3128", TunnelTarget::Address(TARGET.parse().unwrap()), response)
            .await
    }

    #[tokio::test]
    async fn the_request_names_the_address() {
        let attempt = connect(b"HTTP/1.1 200 Connection established\r\n\r\n").await;
        assert_eq!(attempt.result, Ok(()));
        assert_eq!(attempt.request, b"CONNECT 192.0.2.7:443 HTTP/1.1\r\nHost: 192.0.2.7:443\r\n\r\n");
    }

    #[tokio::test]
    async fn names_and_addresses_are_written_as_authorities() {
        let cases = [
            (TunnelTarget::Address("[2001:db8::7]:443".parse().unwrap()), "[2001:db8::7]:443"),
            (TunnelTarget::Address("[fe80::7%3]:443".parse().unwrap()), "[fe80::7]:443"),
            (TunnelTarget::Name { name: "receiver.example", port: 80 }, "receiver.example:80"),
        ];
        for (target, authority) in cases {
            let attempt = open_tunnel("httph://proxy.example:3128", target, b"HTTP/1.0 200\r\n\r\n").await;
            assert_eq!(attempt.result, Ok(()));
            let request = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n");
            assert_eq!(attempt.request, request.as_bytes());
        }
    }

    #[tokio::test]
    async fn credentials_are_sent_as_basic() {
        let target = TunnelTarget::Address(TARGET.parse().unwrap());
        let attempt =
            open_tunnel("http://user:p%40ss@proxy.example:3128", target, b"HTTP/1.1 200 OK\r\n\r\n").await;
        let request = String::from_utf8(attempt.request).unwrap();
        assert!(request.ends_with("\r\nProxy-Authorization: Basic dXNlcjpwQHNz\r\n\r\n"), "{request}");
    }

    #[tokio::test]
    async fn no_byte_of_the_tunnel_is_read() {
        let heads = [
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 7\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nx: \r\r\n \r\n\r\n",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </>\r\n\r\nHTTP/1.1 200\r\n\r\n",
        ];
        for head in heads {
            for tunnelled in ["", "\r\n\r\n", "\n", "HTTP/1.1 500 Not for us\r\n\r\n"] {
                let attempt = connect(format!("{head}{tunnelled}").as_bytes()).await;
                assert_eq!(attempt.result, Ok(()), "{head:?}");
                assert_eq!(attempt.unread, tunnelled.as_bytes(), "{head:?}");
            }
        }
    }

    #[tokio::test]
    async fn only_success_opens_a_tunnel() {
        for status in [101, 300, 302, 400, 403, 404, 500, 502, 503, 599, 999, 0] {
            let attempt = connect(format!("HTTP/1.1 {status:03} secret words\r\n\r\n").as_bytes()).await;
            assert_eq!(attempt.detail(), format!("the egress proxy responded {status} to CONNECT"));
        }
    }

    #[tokio::test]
    async fn a_407_distinguishes_missing_from_wrong_credentials() {
        let response = b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\n\r\n";
        assert_eq!(connect(response).await.detail(), "the egress proxy requires credentials");
        let target = TunnelTarget::Address(TARGET.parse().unwrap());
        let detail = open_tunnel("http://user:hunter2@proxy.example:3128", target, response).await.detail();
        assert_eq!(detail, "the egress proxy does not accept the credentials");
    }

    #[tokio::test]
    async fn proxy_failures_are_distinguished_from_target_failures() {
        let applies_to_all_targets = async |response: &str| {
            let attempt = connect(format!("{response}\r\n\r\n").as_bytes()).await;
            attempt.result.unwrap_err().applies_to_all_targets()
        };
        for proxy_failure in ["HTTP/1.1 407 x", "HTTP/1.1 405 x", "HTTP/1.1 501 x", "SSH-2.0-proxy"] {
            assert!(applies_to_all_targets(proxy_failure).await, "{proxy_failure}");
        }
        for target_failure in [400, 403, 404, 429, 500, 502, 503, 504] {
            assert!(
                !applies_to_all_targets(&format!("HTTP/1.1 {target_failure} x")).await,
                "{target_failure}"
            );
        }
        assert!(
            !connect(b"").await.result.unwrap_err().applies_to_all_targets(),
            "the proxy closed the connection after the request"
        );
    }

    #[tokio::test]
    async fn a_response_that_is_not_http_is_refused() {
        let responses = [
            "\r\n\r\n",
            "SSH-2.0-proxy\r\n\r\n",
            "HTTP/2 200\r\n\r\n",
            "HTTP/1.2 200\r\n\r\n",
            "HTTP/1.1 20\r\n\r\n",
            "HTTP/1.1 2000\r\n\r\n",
            "HTTP/1.1 2x0 OK\r\n\r\n",
            "HTTP/1.1 +20 OK\r\n\r\n",
            "HTTP/1.1  200 OK\r\n\r\n",
            "HTTP/1.1 200\n\r\n\r\n",
            "ICY 200 OK\r\n\r\n",
        ];
        for response in responses {
            let detail = connect(response.as_bytes()).await.detail();
            assert_eq!(detail, "the egress proxy's response to CONNECT is not HTTP", "{response:?}");
        }
    }

    #[tokio::test]
    async fn a_truncated_response_opens_no_tunnel() {
        let response = b"HTTP/1.1 100\r\n\r\nHTTP/1.1 200 OK\r\nVia: proxy\r\n\r\n";
        for len in 0..response.len() {
            let detail = connect(&response[..len]).await.detail();
            assert_eq!(detail, CLOSED_EARLY, "{len}");
        }
    }

    #[tokio::test]
    async fn an_endless_response_is_refused() {
        let endless = [b"HTTP/1.1 200 OK\r\n".as_slice(), &b"x: y\r\n".repeat(4_096)].concat();
        let attempt = connect(&endless).await;
        assert!(attempt.unread.len() > endless.len() - HEAD_LEN_MAX - 1);
        assert_eq!(attempt.detail(), "the egress proxy's response to CONNECT is longer than 8192 bytes");

        let attempt = connect(&b"HTTP/1.1 100\r\n\r\n".repeat(1_024)).await;
        assert_eq!(attempt.detail(), "the egress proxy sends too many interim responses");
    }

    #[tokio::test]
    async fn the_longest_head_is_accepted() {
        let padding = "y".repeat(HEAD_LEN_MAX - "HTTP/1.1 200 OK\r\nx: \r\n\r\n".len());
        let longest = format!("HTTP/1.1 200 OK\r\nx: {padding}\r\n\r\n");
        assert_eq!(connect(longest.as_bytes()).await.result, Ok(()));
        let longer = format!("HTTP/1.1 200 OK\r\nx: {padding}y\r\n\r\n");
        assert!(connect(longer.as_bytes()).await.result.is_err());
    }
}
