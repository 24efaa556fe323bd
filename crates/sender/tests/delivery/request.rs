//! The request that a receiver gets: its bytes, its headers, its signature.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use posthaste_domain::{ErrorClass, EventId, Timestamp};
use proptest::prelude::*;
use standardwebhooks::Webhook;

use crate::receiver::{ReceivedRequest, Receiver, SECRET, lease, send, send_at, sender};

pub(crate) const OTHER_SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

/// The time in the signature of the first attempt.
pub(crate) const NOW: Timestamp = Timestamp::from_secs(1_614_265_330);

#[tokio::test]
async fn a_request_has_the_documented_headers_and_body() {
    let receiver = Receiver::accepting().await;
    let sender = sender(&[SECRET], |_| ());
    let mut lease = lease(&receiver.url());
    lease.traceparent = Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned());
    lease.attempts = 2;
    assert_eq!(send_at(&sender, &lease, NOW).await.http_status(), Some(200));

    let requests = receiver.requests();
    let [request] = requests.as_slice() else { panic!("one request, not {requests:?}") };
    assert_eq!(request.request_line, "POST /hook HTTP/1.1");
    assert_eq!(request.body, br#"{"test": 2432232314}"#);
    let host = receiver.address.to_string();
    let agent = format!("posthaste/{}", env!("CARGO_PKG_VERSION"));
    let mut headers: Vec<_> = request.headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    headers.sort_unstable();
    assert_eq!(
        headers,
        [
            ("content-length", "20"),
            ("content-type", "application/json"),
            ("host", &host),
            ("idempotency-key", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
            ("posthaste-attempt", "3"),
            ("posthaste-event-type", "invoice.paid"),
            ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
            ("user-agent", &agent),
            ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek"),
            ("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
            ("webhook-timestamp", "1614265330"),
        ]
    );
}

#[tokio::test]
async fn every_attempt_has_a_new_signature_and_the_same_id() {
    let receiver = Receiver::accepting().await;
    let sender = sender(&[SECRET], |_| ());
    let mut lease = lease(&receiver.url());
    for attempts in 0..3 {
        lease.attempts = attempts;
        let now = NOW.after(Duration::from_secs(attempts.into()));
        assert_eq!(send_at(&sender, &lease, now).await.http_status(), Some(200));
    }
    let values_of = |name| receiver.requests().iter().map(|r| r.header(name).unwrap().to_owned()).collect();
    let distinct = |name| {
        let mut values: Vec<String> = values_of(name);
        values.dedup();
        values.len()
    };
    assert_eq!(distinct("webhook-id"), 1);
    assert_eq!(distinct("idempotency-key"), 1);
    assert_eq!(distinct("webhook-timestamp"), 3);
    assert_eq!(distinct("webhook-signature"), 3);
    assert_eq!(values_of("posthaste-attempt"), ["1", "2", "3"]);
}

#[tokio::test]
async fn the_standard_webhooks_library_accepts_the_signature() {
    let receiver = Receiver::accepting().await;
    let sender = sender(&[SECRET], |_| ());
    let mut lease = lease(&receiver.url());
    for payload in [&b""[..], b"{}", "{\"name\": \"Zo\u{eb}\"}".as_bytes(), &[b'x'; 100_000]] {
        lease.payload = Bytes::copy_from_slice(payload).into();
        assert_eq!(send(&sender, &lease).await.http_status(), Some(200));
    }
    let requests = receiver.requests();
    assert_eq!(requests.len(), 4);
    for request in requests {
        verify(&request, SECRET).unwrap();
    }
}

#[tokio::test]
async fn during_a_rotation_receivers_with_either_secret_accept() {
    let receiver = Receiver::accepting().await;
    let lease = lease(&receiver.url());
    for valid in [&[SECRET][..], &[OTHER_SECRET, SECRET], &[OTHER_SECRET]] {
        assert_eq!(send(&sender(valid, |_| ()), &lease).await.http_status(), Some(200));
    }
    let accepted: Vec<_> = receiver
        .requests()
        .iter()
        .map(|request| (verify(request, SECRET).is_ok(), verify(request, OTHER_SECRET).is_ok()))
        .collect();
    assert_eq!(accepted, [(true, false), (true, true), (false, true)]);
}

pub(crate) fn verify(request: &ReceivedRequest, secret: &str) -> Result<(), standardwebhooks::WebhookError> {
    let mut headers = HeaderMap::new();
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        headers.insert(name, HeaderValue::from_str(request.header(name).unwrap()).unwrap());
    }
    Webhook::new(secret).unwrap().verify(&request.body, &headers)
}

#[tokio::test]
async fn an_unsendable_event_is_an_outcome_and_opens_no_connection() {
    let receiver = Receiver::accepting().await;
    let sender = sender(&[SECRET], |_| ());
    let good = lease(&receiver.url());
    let mut unsendable = Vec::new();
    for url in ["", "nowhere", "ftp://127.0.0.1/", "http://user@127.0.0.1/", "http://xn--a/", "http://a b/"] {
        unsendable.push(lease(url));
    }
    for text in ["a\r\nwebhook-id: forged", "a\0b", "\u{7f}"] {
        let mut lease = good.clone();
        lease.event_type = text.to_owned();
        unsendable.push(lease);
        let mut lease = good.clone();
        lease.content_type = text.to_owned();
        unsendable.push(lease);
        let mut lease = good.clone();
        lease.traceparent = Some(text.to_owned());
        unsendable.push(lease);
        let mut lease = good.clone();
        lease.event_id = EventId::from_stored(text.to_owned());
        unsendable.push(lease);
        let mut lease = good.clone();
        lease.wire_id = EventId::from_stored(text.to_owned());
        unsendable.push(lease);
    }
    for lease in unsendable {
        let outcome = send(&sender, &lease).await;
        assert_eq!(outcome.error_class(), Some(ErrorClass::Unsendable), "{lease:?}: {outcome:?}");
    }
    assert_eq!(receiver.connections().opened(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_stored_event_type_arrives_unchanged_or_not_at_all(label in "(?s).{0,40}") {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let received = runtime.block_on(async {
            let receiver = Receiver::accepting().await;
            let mut lease = lease(&receiver.url());
            lease.event_type = label.clone();
            let outcome = send(&sender(&[SECRET], |_| ()), &lease).await;
            (outcome, receiver.requests())
        });
        match received {
            (outcome, requests) if outcome.http_status() == Some(200) => {
                prop_assert_eq!(requests.len(), 1);
                prop_assert_eq!(requests[0].headers.len(), 10, "{:?}", &requests[0].headers);
                // HTTP does not count whitespace at either end as part of a header value.
                let sent = requests[0].header("posthaste-event-type").unwrap();
                prop_assert_eq!(sent.trim_matches([' ', '\t']), label.trim_matches([' ', '\t']));
            }
            (outcome, requests) => {
                prop_assert_eq!(outcome.error_class(), Some(ErrorClass::Unsendable));
                prop_assert!(requests.is_empty());
            }
        }
    }
}
