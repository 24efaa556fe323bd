//! The tunnel of an HTTP proxy: `CONNECT`, RFC 9110 section 9.3.6.

use std::net::SocketAddr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::{Credentials, NoTunnel, TunnelTarget, broken, refusal, unusable};

/// Longest accepted head of one answer.
const HEAD_LEN_MAX: usize = 8 * 1_024;
/// Answers that may be interim ones before the final one.
const INTERIM_MAX: usize = 4;
const HEAD_END: &[u8] = b"\r\n\r\n";

pub(super) async fn tunnel<S>(
    stream: &mut S,
    target: &TunnelTarget<'_>,
    credentials: Option<&Credentials>,
) -> Result<(), NoTunnel>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
{
    let request = request(target, credentials);
    stream.write_all(request.as_bytes()).await.map_err(|error| broken(&error))?;
    stream.flush().await.map_err(|error| broken(&error))?;
    for _ in 0..=INTERIM_MAX {
        match status(&head(stream).await?) {
            // Whatever a success says about a body, there is none: from here on the bytes are the tunnel's.
            Some(200..=299) => return Ok(()),
            Some(100 | 102..=199) => {}
            Some(407) if credentials.is_none() => {
                return Err(unusable("the egress proxy asks for credentials"));
            }
            Some(407) => return Err(unusable("the egress proxy does not accept the credentials")),
            Some(status @ (405 | 501)) => return Err(unusable(answered(status))),
            Some(status) => return Err(refusal(answered(status))),
            None => return Err(unusable("the egress proxy's answer to CONNECT is not HTTP")),
        }
    }
    Err(unusable("the egress proxy sends interim answers without end"))
}

fn answered(status: u16) -> String {
    format!("the egress proxy answered {status} to CONNECT")
}

fn request(target: &TunnelTarget<'_>, credentials: Option<&Credentials>) -> String {
    let authority = match target {
        // Without the scope that only this host could make sense of.
        TunnelTarget::Address(address) => SocketAddr::new(address.ip(), address.port()).to_string(),
        TunnelTarget::Name { name, port } => format!("{name}:{port}"),
    };
    let authorization = credentials.map_or_else(String::new, |Credentials { user, password }| {
        let pair = [user.as_slice(), password.as_slice()].join(&b':');
        format!("Proxy-Authorization: Basic {}\r\n", STANDARD.encode(pair))
    });
    format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n{authorization}\r\n")
}

/// Everything up to the empty line, and not a byte more: a read never asks for more than the end still lacks.
async fn head<S: AsyncRead + Unpin>(stream: &mut S) -> Result<Vec<u8>, NoTunnel> {
    let mut head = Vec::with_capacity(256);
    loop {
        let present = (0..=HEAD_END.len()).rev().find(|len| head.ends_with(&HEAD_END[..*len])).unwrap_or(0);
        let lacking = HEAD_END.len() - present;
        if lacking == 0 {
            return Ok(head);
        }
        if head.len() + lacking > HEAD_LEN_MAX {
            return Err(unusable(format!(
                "the egress proxy's answer to CONNECT is longer than {HEAD_LEN_MAX} bytes"
            )));
        }
        let mut step = [0; HEAD_END.len()];
        match stream.read(&mut step[..lacking]).await {
            Ok(0) => return Err(refusal("the egress proxy closed the connection before it answered")),
            Ok(len) => head.extend_from_slice(&step[..len]),
            Err(error) => return Err(broken(&error)),
        }
    }
}

/// The three digits of `HTTP/1.x 200 …`.
fn status(head: &[u8]) -> Option<u16> {
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
    use crate::proxy::scripted::{Asked, ask};

    const TARGET: &str = "192.0.2.7:443";

    async fn connect(answer: &[u8]) -> Asked {
        ask("http://proxy.example:3128", TunnelTarget::Address(TARGET.parse().unwrap()), answer).await
    }

    #[tokio::test]
    async fn the_proxy_is_asked_for_the_address() {
        let asked = connect(b"HTTP/1.1 200 Connection established\r\n\r\n").await;
        assert_eq!(asked.result, Ok(()));
        assert_eq!(asked.request, b"CONNECT 192.0.2.7:443 HTTP/1.1\r\nHost: 192.0.2.7:443\r\n\r\n");
    }

    #[tokio::test]
    async fn every_kind_of_target_has_its_form() {
        let cases = [
            (TunnelTarget::Address("[2001:db8::7]:443".parse().unwrap()), "[2001:db8::7]:443"),
            (TunnelTarget::Address("[fe80::7%3]:443".parse().unwrap()), "[fe80::7]:443"),
            (TunnelTarget::Name { name: "receiver.example", port: 80 }, "receiver.example:80"),
        ];
        for (target, authority) in cases {
            let asked = ask("httph://proxy.example:3128", target, b"HTTP/1.0 200\r\n\r\n").await;
            assert_eq!(asked.result, Ok(()));
            let request = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n");
            assert_eq!(asked.request, request.as_bytes());
        }
    }

    #[tokio::test]
    async fn credentials_are_sent_as_basic() {
        let target = TunnelTarget::Address(TARGET.parse().unwrap());
        let asked = ask("http://user:p%40ss@proxy.example:3128", target, b"HTTP/1.1 200 OK\r\n\r\n").await;
        let request = String::from_utf8(asked.request).unwrap();
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
                let asked = connect(format!("{head}{tunnelled}").as_bytes()).await;
                assert_eq!(asked.result, Ok(()), "{head:?}");
                assert_eq!(asked.rest, tunnelled.as_bytes(), "{head:?}");
            }
        }
    }

    #[tokio::test]
    async fn only_success_opens_a_tunnel() {
        for status in [101, 300, 302, 400, 403, 404, 500, 502, 503, 599, 999, 0] {
            let asked = connect(format!("HTTP/1.1 {status:03} secret words\r\n\r\n").as_bytes()).await;
            assert_eq!(asked.detail(), format!("the egress proxy answered {status} to CONNECT"));
        }
    }

    #[tokio::test]
    async fn a_407_says_whether_credentials_lack_or_are_wrong() {
        let answer = b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\n\r\n";
        assert_eq!(connect(answer).await.detail(), "the egress proxy asks for credentials");
        let target = TunnelTarget::Address(TARGET.parse().unwrap());
        let detail = ask("http://user:hunter2@proxy.example:3128", target, answer).await.detail();
        assert_eq!(detail, "the egress proxy does not accept the credentials");
    }

    #[tokio::test]
    async fn a_refusal_of_us_is_told_from_one_of_the_target() {
        let speaks_for_all = async |answer: &str| {
            let asked = connect(format!("{answer}\r\n\r\n").as_bytes()).await;
            asked.result.unwrap_err().is_to_anything()
        };
        for of_us in ["HTTP/1.1 407 x", "HTTP/1.1 405 x", "HTTP/1.1 501 x", "SSH-2.0-proxy"] {
            assert!(speaks_for_all(of_us).await, "{of_us}");
        }
        for of_target in [400, 403, 404, 429, 500, 502, 503, 504] {
            assert!(!speaks_for_all(&format!("HTTP/1.1 {of_target} x")).await, "{of_target}");
        }
        assert!(!connect(b"").await.result.unwrap_err().is_to_anything(), "it hung up when it was asked");
    }

    #[tokio::test]
    async fn what_is_not_http_is_refused() {
        let answers = [
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
        for answer in answers {
            let detail = connect(answer.as_bytes()).await.detail();
            assert_eq!(detail, "the egress proxy's answer to CONNECT is not HTTP", "{answer:?}");
        }
    }

    #[tokio::test]
    async fn an_answer_that_ends_early_is_no_tunnel_wherever_it_ends() {
        let answer = b"HTTP/1.1 100\r\n\r\nHTTP/1.1 200 OK\r\nVia: proxy\r\n\r\n";
        for len in 0..answer.len() {
            let detail = connect(&answer[..len]).await.detail();
            assert_eq!(detail, "the egress proxy closed the connection before it answered", "{len}");
        }
    }

    #[tokio::test]
    async fn an_answer_without_end_is_cut_off() {
        let endless = [b"HTTP/1.1 200 OK\r\n".as_slice(), &b"x: y\r\n".repeat(4_096)].concat();
        let asked = connect(&endless).await;
        assert!(asked.rest.len() > endless.len() - HEAD_LEN_MAX - 1);
        assert_eq!(asked.detail(), "the egress proxy's answer to CONNECT is longer than 8192 bytes");

        let asked = connect(&b"HTTP/1.1 100\r\n\r\n".repeat(1_024)).await;
        assert_eq!(asked.detail(), "the egress proxy sends interim answers without end");
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
