//! Well-formed responses, and the outcomes that they produce.

use std::time::Duration;

use posthaste_domain::{Classification, Excerpt, Outcome, RETRY_AFTER_MAX};

use crate::harness::behaviours_bodies::{GZIP_HEAD, GZIP_MORE};
use crate::harness::fixture::Fixture;
use crate::harness::script::Step::{Read, Serve};
use crate::harness::script::{Transport, write};

/// Returns the outcome of an attempt whose response consists of these bytes.
async fn outcome_of_response(fixture: &Fixture, response: impl AsRef<[u8]>) -> Outcome {
    let receiver = fixture.receiver(Transport::Plain, [Read, write(response), Serve]).await;
    let outcome = fixture.send_to(&receiver).await;
    assert_eq!((receiver.log.connections(), receiver.log.requests()), (1, 1));
    outcome
}

/// Returns the outcome of a response with this status, these headers and no body.
async fn outcome_of_status(fixture: &Fixture, status: u16, headers: &str) -> Outcome {
    outcome_of_response(fixture, format!("HTTP/1.1 {status} Reason\r\n{headers}content-length: 0\r\n\r\n"))
        .await
}

#[tokio::test]
async fn every_final_status_is_recorded_in_the_outcome() {
    let fixture = Fixture::new();
    for status in [200, 201, 204, 206, 299, 300, 304, 400, 401, 403, 404, 408, 418, 422, 499, 500, 502, 599] {
        assert_eq!(outcome_of_status(&fixture, status, "").await.http_status(), Some(status));
    }
}

#[tokio::test]
async fn a_redirect_is_an_outcome_and_is_not_followed() {
    let fixture = Fixture::new();
    let canary = fixture.receiver(Transport::Plain, [Serve]).await;
    for status in [301, 302, 303, 307, 308] {
        let location = format!("location: {}\r\n", canary.url);
        assert_eq!(outcome_of_status(&fixture, status, &location).await.http_status(), Some(status));
    }
    assert_eq!(canary.log.connections(), 0);
}

#[tokio::test]
async fn status_410_is_gone_and_404_is_retried() {
    let fixture = Fixture::new();
    assert_eq!(outcome_of_status(&fixture, 410, "").await.classify(), Classification::Gone);
    assert_eq!(outcome_of_status(&fixture, 404, "").await.classify(), Classification::Retry);
}

#[tokio::test]
async fn retry_after_is_parsed_in_each_of_its_forms() {
    let fixture = Fixture::new();
    let values = [
        ("120", Some(Duration::from_secs(120))),
        (" 120\t", Some(Duration::from_secs(120))),
        ("999999999999999999999", Some(RETRY_AFTER_MAX)),
        ("Tue, 31 Dec 2999 23:59:59 GMT", Some(RETRY_AFTER_MAX)),
        ("Sun, 06 Nov 1994 08:49:37 GMT", None),
        ("0", None),
        ("-1", None),
        ("soon", None),
        ("", None),
    ];
    for (value, pause) in values {
        let header = format!("retry-after: {value}\r\n");
        for status in [429, 503] {
            let outcome = outcome_of_status(&fixture, status, &header).await;
            assert_eq!(
                (outcome.http_status(), outcome.requested_pause()),
                (Some(status), pause),
                "{value:?}"
            );
        }
        assert_eq!(outcome_of_status(&fixture, 500, &header).await.requested_pause(), None, "{value:?}");
    }
}

#[tokio::test]
async fn a_compressed_body_is_not_decompressed() {
    let fixture = Fixture::new();
    let body = [GZIP_HEAD, &GZIP_MORE.repeat(1_000)].concat();
    let head =
        format!("HTTP/1.1 500 Oops\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n", body.len());
    let outcome = outcome_of_response(&fixture, [head.as_bytes(), &body].concat()).await;
    assert_eq!(*outcome.excerpt(), Excerpt::from_bytes(&body));
}

#[tokio::test]
async fn an_excerpt_contains_no_terminal_control_characters() {
    let fixture = Fixture::new();
    let response = "HTTP/1.1 500 Oops\r\ncontent-length: 17\r\n\r\n\x1b[2J\x07down\r\n\0 here";
    assert_eq!(outcome_of_response(&fixture, response).await.excerpt().as_str(), "[2J down here");
}
