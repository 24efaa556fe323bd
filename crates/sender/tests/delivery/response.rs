//! From a response to an outcome.

use std::time::Duration;

use posthaste_domain::{Classification, Outcome, RETRY_AFTER_MAX};
use proptest::prelude::*;

use crate::receiver::{Receiver, SECRET, lease, send, sender};

async fn outcome_of(response: &str) -> Outcome {
    let receiver = Receiver::responding_with(response).await;
    send(&sender(&[SECRET], |_| ()), &lease(&receiver.url())).await
}

#[tokio::test]
async fn the_excerpt_is_short_printable_text() {
    let body = "bad\r\n\u{1b}[31mgateway\u{202e}\t".repeat(1_000);
    let length = body.len();
    let outcome =
        outcome_of(&format!("HTTP/1.1 502 Bad Gateway\r\ncontent-length: {length}\r\n\r\n{body}")).await;
    let excerpt = outcome.excerpt().as_str();
    assert!(excerpt.starts_with("bad [31mgateway bad"), "{excerpt}");
    assert_eq!(excerpt.chars().count(), 200);
    assert!(!excerpt.chars().any(char::is_control));
}

#[tokio::test]
async fn retry_after_pauses_on_429_and_503_in_seconds_or_as_a_date() {
    for status in [429, 503] {
        let outcome =
            outcome_of(&format!("HTTP/1.1 {status} x\r\nretry-after: 90\r\ncontent-length: 0\r\n\r\n")).await;
        assert_eq!(outcome.requested_pause(), Some(Duration::from_secs(90)), "{status}");
        let far = "Fri, 31 Dec 9999 23:59:59 GMT";
        let outcome =
            outcome_of(&format!("HTTP/1.1 {status} x\r\nretry-after: {far}\r\ncontent-length: 0\r\n\r\n"))
                .await;
        assert_eq!(outcome.requested_pause(), Some(RETRY_AFTER_MAX), "{status}");
    }
    for ignored in
        ["HTTP/1.1 500 x\r\nretry-after: 90", "HTTP/1.1 503 x\r\nretry-after: soon", "HTTP/1.1 429 x"]
    {
        let outcome = outcome_of(&format!("{ignored}\r\ncontent-length: 0\r\n\r\n")).await;
        assert_eq!(outcome.requested_pause(), None, "{ignored}");
        assert_eq!(outcome.classify(), Classification::Retry);
    }
}

#[tokio::test]
async fn status_410_is_gone() {
    let outcome = outcome_of("HTTP/1.1 410 Gone\r\ncontent-length: 0\r\n\r\n").await;
    assert_eq!(outcome.classify(), Classification::Gone);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_retry_after_value_breaks_a_response(value in "[\\x20-\\x7e\\x80-\\xff]{0,60}") {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let response = format!("HTTP/1.1 503 x\r\nretry-after: {value}\r\ncontent-length: 0\r\n\r\n");
        let outcome = runtime.block_on(outcome_of(&response));
        prop_assert_eq!(outcome.http_status(), Some(503));
        prop_assert!(outcome.requested_pause().is_none_or(|pause| pause <= RETRY_AFTER_MAX));
    }
}
