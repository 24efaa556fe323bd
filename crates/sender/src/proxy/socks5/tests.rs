use super::*;
use crate::proxy::CLOSED_EARLY;
use crate::proxy::scripted::{TunnelAttempt, open_tunnel};

const NO_AUTHENTICATION: &[u8] = &[5, 0];
const SUCCEEDED: &[u8] = &[5, 0, 0, 1, 192, 0, 2, 1, 0x1f, 0x90];

async fn connect(response: &[u8]) -> TunnelAttempt {
    open_tunnel("socks5://proxy.example", TunnelTarget::Address("192.0.2.7:443".parse().unwrap()), response)
        .await
}

async fn connect_with_credentials(response: &[u8]) -> TunnelAttempt {
    let target = TunnelTarget::Address("192.0.2.7:443".parse().unwrap());
    open_tunnel("socks5://user:hunter2@proxy.example", target, response).await
}

#[tokio::test]
async fn every_kind_of_target_is_encoded() {
    let v6 = [&[5, 1, 0, 5, 1, 0, 4][..], &[0x20, 0x01, 0x0d, 0xb8], &[0; 11], &[7, 0x01, 0xbb]].concat();
    let cases = [
        (
            TunnelTarget::Address("192.0.2.7:443".parse().unwrap()),
            vec![5, 1, 0, 5, 1, 0, 1, 192, 0, 2, 7, 0x01, 0xbb],
        ),
        (TunnelTarget::Address("[2001:db8::7]:443".parse().unwrap()), v6),
        (
            TunnelTarget::Name { name: "receiver.example", port: 80 },
            [&[5, 1, 0, 5, 1, 0, 3, 16][..], b"receiver.example", &[0, 80]].concat(),
        ),
    ];
    for (target, request) in cases {
        let attempt =
            open_tunnel("socks5h://proxy.example", target, &[NO_AUTHENTICATION, SUCCEEDED].concat()).await;
        assert_eq!(attempt.result, Ok(()));
        assert_eq!(attempt.request, request);
    }
}

#[tokio::test]
async fn the_longest_name_is_sent_completely() {
    let name = format!("{0}.{0}.{0}.{1}", "a".repeat(63), "b".repeat(61));
    let target = TunnelTarget::Name { name: &name, port: 80 };
    let attempt =
        open_tunnel("socks5h://proxy.example", target, &[NO_AUTHENTICATION, SUCCEEDED].concat()).await;
    assert_eq!(attempt.result, Ok(()));
    assert_eq!(attempt.request.len(), 3 + 4 + 1 + 253 + 2);
}

#[tokio::test]
async fn credentials_are_offered_and_sent_only_on_request() {
    for login_version in [1, 5] {
        let attempt = connect_with_credentials(&[&[5, 2, login_version, 0], SUCCEEDED].concat()).await;
        assert_eq!(attempt.result, Ok(()));
        let handshake = [&[5, 2, 0, 2, 1, 4][..], b"user", &[7], b"hunter2"].concat();
        assert!(attempt.request.starts_with(&handshake), "{:?}", attempt.request);
    }
    let attempt = connect_with_credentials(&[NO_AUTHENTICATION, SUCCEEDED].concat()).await;
    assert_eq!(attempt.result, Ok(()));
    assert!(
        !attempt.request.windows(7).any(|bytes| bytes == b"hunter2"),
        "credentials are sent only on request"
    );
}

#[tokio::test]
async fn refused_authentication_names_the_reason() {
    assert_eq!(connect(&[5, 0xff]).await.detail(), "the egress proxy requires credentials");
    let detail = connect_with_credentials(&[5, 0xff]).await.detail();
    assert_eq!(detail, "the egress proxy accepts neither a user name and password nor an anonymous client");
    let detail = connect_with_credentials(&[5, 2, 1, 1]).await.detail();
    assert_eq!(detail, "the egress proxy does not accept the credentials");
}

#[tokio::test]
async fn no_byte_of_the_tunnel_is_read_for_any_bound_address() {
    let bound = [
        [&[1][..], &[9; 4]].concat(),
        [&[4][..], &[9; 16]].concat(),
        [&[3, 0][..], &[]].concat(),
        [&[3, 5][..], b"proxy"].concat(),
        [&[3, 255][..], &[b'a'; 255]].concat(),
    ];
    for address in bound {
        for tunnelled in [b"".as_slice(), b"\x05\x00", b"HTTP/1.1 200 OK\r\n\r\n"] {
            let response = [NO_AUTHENTICATION, &[5, 0, 0], &address, &[0, 80], tunnelled].concat();
            let attempt = connect(&response).await;
            assert_eq!(attempt.result, Ok(()), "{address:?}");
            assert_eq!(attempt.unread, tunnelled, "{address:?}");
        }
    }
}

#[tokio::test]
async fn every_reply_code_is_described() {
    let words = ["general", "rules", "network unreachable", "host unreachable", "refused by", "time to live"];
    for (reply, words) in (1..).zip(words.into_iter().chain(["command", "type of address"])) {
        let detail = connect(&[5, 0, 5, reply, 0, 1, 0, 0, 0, 0, 0, 0]).await.detail();
        assert!(
            detail.starts_with("the egress proxy refused: ") && detail.contains(words),
            "{reply}: {detail}"
        );
    }
    for reply in 9..=u8::MAX {
        // Some proxies close the connection right after the code.
        let detail = connect(&[5, 0, 5, reply]).await.detail();
        assert_eq!(detail, format!("the egress proxy refused: code {reply}"));
    }
}

#[tokio::test]
async fn proxy_failures_are_distinguished_from_target_failures() {
    let applies_to_all_targets =
        async |response: &[u8]| connect(response).await.result.unwrap_err().applies_to_all_targets();
    for proxy_failure in [&[5, 0xff][..], &[5, 0, 5, 7], &[4, 0], &[5, 0, 4, 0]] {
        assert!(applies_to_all_targets(proxy_failure).await, "{proxy_failure:?}");
    }
    for reply in [1, 2, 3, 4, 5, 6, 8, 9] {
        assert!(!applies_to_all_targets(&[5, 0, 5, reply]).await, "{reply}");
    }
    assert!(!applies_to_all_targets(&[5, 0]).await, "the proxy closed the connection after the request");
    assert!(connect_with_credentials(&[5, 2, 1, 1]).await.result.unwrap_err().applies_to_all_targets());
}

#[tokio::test]
async fn a_response_that_is_not_socks5_is_refused() {
    let responses: [&[u8]; 7] = [
        &[4, 0],
        &[0, 90, 0, 0, 0, 0, 0, 0],
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        &[5, 1],
        &[5, 2, 1, 0],
        &[5, 0, 4, 0, 0, 1, 0, 0, 0, 0, 0, 0],
        &[5, 0, 5, 0, 0, 2, 0, 0, 0, 0, 0, 0],
    ];
    for response in responses {
        assert_eq!(
            connect(response).await.detail(),
            "the egress proxy's response is not SOCKS5",
            "{response:?}"
        );
    }
}

#[tokio::test]
async fn a_truncated_response_opens_no_tunnel() {
    let name = [&[5, 2, 1, 0, 5, 0, 0, 3, 5][..], b"proxy", &[0, 80]].concat();
    let v6 = [&[5, 2, 1, 0, 5, 0, 0, 4][..], &[0; 16], &[0, 80]].concat();
    for response in [[&[5, 2, 1, 0], SUCCEEDED].concat(), name, v6] {
        assert_eq!(connect_with_credentials(&response).await.result, Ok(()));
        for len in 0..response.len() {
            let detail = connect_with_credentials(&response[..len]).await.detail();
            assert_eq!(detail, CLOSED_EARLY, "{len}");
        }
    }
}
