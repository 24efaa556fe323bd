//! What receivers ask for politely, and what a request must look like for it.

use std::time::Duration;

use posthaste_domain::{Excerpt, Outcome, Verdict};

use crate::stage::behaviours_bodies::{GZIP_HEAD, GZIP_MORE};
use crate::stage::script::Step::{Read, Serve};
use crate::stage::script::{Transport, write};
use crate::stage::world::World;

/// The outcome of an attempt that is answered with these bytes.
async fn answered(world: &World, answer: impl AsRef<[u8]>) -> Outcome {
    let receiver = world.receiver(Transport::Plain, [Read, write(answer), Serve]).await;
    let outcome = world.send_to(&receiver).await;
    assert_eq!((receiver.seen.connections(), receiver.seen.requests()), (1, 1));
    outcome
}

async fn answered_with(world: &World, status: u16, headers: &str) -> Outcome {
    answered(world, format!("HTTP/1.1 {status} Whatever\r\n{headers}content-length: 0\r\n\r\n")).await
}

#[tokio::test]
async fn every_final_status_is_the_outcome() {
    let world = World::new();
    for status in [200, 201, 204, 206, 299, 300, 304, 400, 401, 403, 404, 408, 418, 422, 499, 500, 502, 599] {
        assert_eq!(answered_with(&world, status, "").await.http_status(), Some(status));
    }
}

#[tokio::test]
async fn a_redirect_is_an_outcome_and_not_followed() {
    let world = World::new();
    let canary = world.receiver(Transport::Plain, [Serve]).await;
    for status in [301, 302, 303, 307, 308] {
        let location = format!("location: {}\r\n", canary.url);
        assert_eq!(answered_with(&world, status, &location).await.http_status(), Some(status));
    }
    assert_eq!(canary.seen.connections(), 0);
}

#[tokio::test]
async fn gone_is_gone() {
    let world = World::new();
    assert_eq!(answered_with(&world, 410, "").await.verdict(), Verdict::Gone);
    assert_eq!(answered_with(&world, 404, "").await.verdict(), Verdict::Retry);
}

#[tokio::test]
async fn retry_after_is_heard_in_each_of_its_forms() {
    let world = World::new();
    let hour = Some(Duration::from_secs(3_600));
    let wishes = [
        ("120", Some(Duration::from_secs(120))),
        (" 120\t", Some(Duration::from_secs(120))),
        ("999999999999999999999", hour),
        ("Tue, 31 Dec 2999 23:59:59 GMT", hour),
        ("Sun, 06 Nov 1994 08:49:37 GMT", None),
        ("0", None),
        ("-1", None),
        ("soon", None),
        ("", None),
    ];
    for (wish, pause) in wishes {
        let header = format!("retry-after: {wish}\r\n");
        for status in [429, 503] {
            let outcome = answered_with(&world, status, &header).await;
            assert_eq!((outcome.http_status(), outcome.pause()), (Some(status), pause), "{wish:?}");
        }
        assert_eq!(answered_with(&world, 500, &header).await.pause(), None, "{wish:?}");
    }
}

#[tokio::test]
async fn a_packed_body_is_taken_as_it_came() {
    let world = World::new();
    let body = [GZIP_HEAD, &GZIP_MORE.repeat(1_000)].concat();
    let head =
        format!("HTTP/1.1 500 Oops\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n", body.len());
    let outcome = answered(&world, [head.as_bytes(), &body].concat()).await;
    assert_eq!(*outcome.excerpt(), Excerpt::from_bytes(&body));
}

#[tokio::test]
async fn an_excerpt_holds_nothing_that_a_terminal_would_obey() {
    let world = World::new();
    let answer = "HTTP/1.1 500 Oops\r\ncontent-length: 17\r\n\r\n\x1b[2J\x07down\r\n\0 here";
    assert_eq!(answered(&world, answer).await.excerpt().as_str(), "[2J down here");
}
