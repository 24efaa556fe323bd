//! Behaviour of receivers between two requests, and on connections that several requests share.

use std::net::Ipv4Addr;
use std::time::Duration;

use futures_util::future::join_all;
use posthaste_domain::{ErrorClass, Outcome};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinHandle;

use crate::harness::behaviours_http1::OK;
use crate::harness::certificates::Handshake;
use crate::harness::fixture::{Fixture, STALLED_NAME};
use crate::harness::frames::{
    DATA, END_STREAM, FIRST_STREAM, MAX_CONCURRENT_STREAMS, NO_ERROR, STATUS_200, frame, goaway, headers,
    settings,
};
use crate::harness::receiver::Receiver;
use crate::harness::script::Step::{self, Close, Read, ReadHead, Reset, Serve, Silence, Wait};
use crate::harness::script::{AMPLE, SMALL_BYTES, Transport, write};
use crate::harness::time::{wait, wait_until};

const HTTP2: Transport = Transport::Tls(Handshake::Http2);
const TRANSPORTS: [Transport; 3] = [Transport::Plain, Transport::Tls(Handshake::Http1), HTTP2];

/// Deadline of requests that must reach it.
const SHORT: Duration = Duration::from_secs(1);
/// Time for the runtime, which the sender shares with the receiver, to poll the sender's sockets.
const PROPAGATION_TIME: Duration = Duration::from_millis(100);

fn assert_response(outcome: &Outcome, number: usize) {
    assert_eq!(outcome.http_status(), Some(200), "{outcome:?}");
    assert_eq!(outcome.excerpt().as_str(), format!("response to request {number}"));
}

#[tokio::test]
async fn sequential_requests_share_one_connection() {
    let fixture = Fixture::new();
    for over in TRANSPORTS {
        let receiver = fixture.receiver(over, [Serve]).await;
        for number in 1..=5 {
            assert_response(&fixture.send_to(&receiver).await, number);
        }
        assert_eq!((receiver.log.connections(), receiver.log.requests()), (1, 5), "{over:?}");
    }
}

#[tokio::test]
async fn a_connection_is_reused_after_a_body_of_at_most_16_kib() {
    let fixture = Fixture::new();
    for (body_bytes, connections) in [(16 << 10, 1), (100 << 10, 2)] {
        let body = "a".repeat(body_bytes);
        let response = format!("HTTP/1.1 200 OK\r\ncontent-length: {body_bytes}\r\n\r\n{body}");
        let receiver = fixture.receiver(Transport::Plain, [Read, write(response), Serve]).await;
        assert_eq!(fixture.send_to(&receiver).await.http_status(), Some(200));
        assert_response(&fixture.send_to(&receiver).await, 2);
        assert_eq!(receiver.log.connections(), connections, "{body_bytes} bytes");
    }
}

/// Plays a script that serves one request, waits, and then damages the connection. Asserts that the next request arrives
/// once, over a new connection, and gets its own response.
async fn assert_next_request_is_delivered_after<const N: usize>(over: Transport, steps: [Step; N]) {
    let fixture = Fixture::new();
    let receiver = fixture.receiver(over, steps).await;
    assert_eq!(fixture.send_to(&receiver).await.http_status(), Some(200));
    receiver.continue_script();
    assert!(wait_until(|| receiver.log.script_played()).await, "the connection is intact: {over:?}");
    wait(PROPAGATION_TIME).await;
    assert_response(&fixture.send_to(&receiver).await, 2);
    assert_eq!((receiver.log.connections(), receiver.log.requests()), (2, 2), "{over:?}");
}

/// Writes a complete response to the first request.
fn respond(over: Transport) -> Step {
    let http2 = [settings(&[]), headers(END_STREAM, FIRST_STREAM, STATUS_200)].concat();
    if over == HTTP2 { write(http2) } else { write(OK) }
}

#[tokio::test]
async fn a_connection_closed_while_idle_is_replaced() {
    for over in TRANSPORTS {
        assert_next_request_is_delivered_after(over, [Read, respond(over), Wait, Close]).await;
    }
}

#[tokio::test]
async fn a_connection_closed_without_tls_close_while_idle_is_replaced() {
    for over in TRANSPORTS {
        assert_next_request_is_delivered_after(over, [Read, respond(over), Wait, Step::CloseTcp]).await;
    }
}

#[tokio::test]
async fn a_connection_reset_while_idle_is_replaced() {
    for over in TRANSPORTS {
        assert_next_request_is_delivered_after(over, [Read, respond(over), Wait, Reset]).await;
    }
}

#[tokio::test]
async fn an_unrequested_response_is_not_taken_for_the_next_one() {
    let unrequested = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nstray";
    for over in [Transport::Plain, Transport::Tls(Handshake::Http1)] {
        assert_next_request_is_delivered_after(over, [Read, write(OK), Wait, write(unrequested), Serve])
            .await;
    }
}

#[tokio::test]
async fn a_partial_unrequested_response_is_not_taken_for_the_next_one() {
    let unrequested = "HTTP/1.1 200 OK\r\nx-a: ";
    for over in [Transport::Plain, Transport::Tls(Handshake::Http1)] {
        assert_next_request_is_delivered_after(over, [Read, write(OK), Wait, write(unrequested), Serve])
            .await;
    }
}

#[tokio::test]
async fn a_goaway_while_idle_moves_the_next_request_to_a_new_connection() {
    let goaway = goaway(FIRST_STREAM, NO_ERROR);
    assert_next_request_is_delivered_after(HTTP2, [Read, respond(HTTP2), Wait, write(goaway), Silence]).await;
}

#[tokio::test]
async fn a_request_lost_on_a_reused_connection_is_not_sent_again() {
    let fixture = Fixture::new();
    for over in TRANSPORTS {
        for end in [Close, Step::CloseTcp, Reset] {
            let receiver = fixture.receiver(over, [Read, respond(over), ReadHead, end]).await;
            assert_eq!(fixture.send_to(&receiver).await.http_status(), Some(200));
            let second = fixture.send_to(&receiver).await;
            assert_eq!(second.error_class(), Some(ErrorClass::Reset), "{over:?}: {second:?}");
            assert_eq!((receiver.log.connections(), receiver.log.requests()), (1, 2), "{over:?}");
            assert_response(&fixture.send_to(&receiver).await, 3);
        }
    }
}

#[tokio::test]
async fn a_connection_whose_request_timed_out_is_not_used_again() {
    let fixture = Fixture::new();
    for over in TRANSPORTS {
        let receiver = fixture.receiver(over, [Read, respond(over), Read, Wait, respond(over), Serve]).await;
        assert_eq!(fixture.send_to(&receiver).await.http_status(), Some(200));
        let second = fixture.send(&receiver.url, SMALL_BYTES, SHORT).await;
        assert_eq!(second.error_class(), Some(ErrorClass::Timeout), "{over:?}: {second:?}");
        // The late response arrives during the next request.
        receiver.continue_script();
        assert_response(&fixture.send_to(&receiver).await, 3);
        assert_eq!(receiver.log.connections(), 2, "{over:?}");
    }
}

#[tokio::test]
async fn a_request_that_times_out_does_not_affect_others_on_its_connection() {
    let fixture = Fixture::new();
    let late = [
        Read,
        respond(HTTP2),
        Read,
        Read,
        Wait,
        write(headers(END_STREAM, FIRST_STREAM + 4, STATUS_200)),
        Serve,
    ];
    let receiver = fixture.receiver(HTTP2, late).await;
    assert_eq!(fixture.send_to(&receiver).await.http_status(), Some(200));
    let short = async {
        let outcome = fixture.send(&receiver.url, SMALL_BYTES, SHORT).await;
        receiver.continue_script();
        outcome
    };
    let long = async {
        assert!(wait_until(|| receiver.log.requests() == 2).await);
        fixture.send_to(&receiver).await
    };
    let (short, long) = tokio::join!(short, long);
    assert_eq!(short.error_class(), Some(ErrorClass::Timeout), "{short:?}");
    assert_eq!(long.http_status(), Some(200), "{long:?}");
    assert_eq!((receiver.log.connections(), receiver.log.requests()), (1, 3));
}

/// Concurrent requests, as many as one connection carries.
const CONCURRENT: u32 = 32;
/// Deadline of the concurrent requests except the first.
const LONG: Duration = Duration::from_secs(60);
/// Deadline of the first concurrent request.
const LONGER: Duration = Duration::from_secs(3_600);
/// Sizes of two DATA frames that together exceed the part of a body that the sender reads.
const UNFINISHED_BODY: [usize; 2] = [16 << 10, 1];
/// Bytes that the flow-control window still lets the receiver send after them.
const WINDOW_REST: usize = (16 << 10) - 1;

/// Streams of all concurrent requests except the first. Another request opened the connection before them.
fn other_streams() -> impl Iterator<Item = u32> {
    (2..=CONCURRENT).map(|number| FIRST_STREAM + 2 * number)
}

fn body(stream: u32, frame_sizes: &[usize]) -> Vec<u8> {
    let frames = frame_sizes.iter().map(|bytes| frame(DATA, 0, stream, &vec![b'a'; *bytes]));
    frames.flatten().collect()
}

/// Opens a connection and sends concurrent requests on it. When all but the first have ended, the receiver continues its
/// script. Returns the outcomes of the others and of the first.
async fn send_concurrently(
    fixture: &Fixture,
    receiver: &Receiver,
    when_all_arrived: impl AsyncFnOnce(),
) -> (Vec<Outcome>, Outcome) {
    assert_eq!(fixture.send_to(receiver).await.http_status(), Some(200));
    let others = async {
        let others = join_all((1..CONCURRENT).map(|_| fixture.send(&receiver.url, SMALL_BYTES, LONG)));
        let arrived = async {
            receiver.log.wait_for_requests(usize::try_from(CONCURRENT).unwrap() + 1).await;
            when_all_arrived().await;
        };
        let (others, ()) = tokio::join!(others, arrived);
        receiver.continue_script();
        others
    };
    let first = fixture.send(&receiver.url, SMALL_BYTES, LONGER);
    let (first, others) = tokio::join!(first, others);
    assert_eq!(receiver.log.connections(), 1);
    (others, first)
}

#[tokio::test]
async fn late_bytes_of_unfinished_responses_do_not_affect_other_requests() {
    let fixture = Fixture::new();
    let begun =
        other_streams().flat_map(|stream| [headers(0, stream, STATUS_200), body(stream, &UNFINISHED_BODY)]);
    let rest = other_streams().map(|stream| body(stream, &[WINDOW_REST]));
    let last = headers(END_STREAM, FIRST_STREAM + 2, STATUS_200);
    let steps = [Read, respond(HTTP2)]
        .into_iter()
        .chain((0..CONCURRENT).map(|_| Read))
        .chain([write(begun.flatten().collect::<Vec<_>>()), Wait])
        .chain([write(rest.flatten().collect::<Vec<_>>()), write(last), Silence]);
    let receiver = fixture.receiver(HTTP2, steps.collect::<Vec<_>>()).await;
    let (others, first) = send_concurrently(&fixture, &receiver, async || ()).await;
    for outcome in others.iter().chain([&first]) {
        assert_eq!(outcome.http_status(), Some(200), "{outcome:?}");
    }
}

#[tokio::test]
async fn late_responses_to_timed_out_requests_do_not_affect_other_requests() {
    let fixture = Fixture::new();
    let late = other_streams()
        .flat_map(|stream| [headers(0, stream, STATUS_200), body(stream, &[16 << 10, 16 << 10])]);
    let last = headers(END_STREAM, FIRST_STREAM + 2, STATUS_200);
    let steps = [Read, respond(HTTP2)].into_iter().chain((0..CONCURRENT).map(|_| Read)).chain([
        Wait,
        write(late.flatten().collect::<Vec<_>>()),
        write(last),
        Silence,
    ]);
    let receiver = fixture.receiver(HTTP2, steps.collect::<Vec<_>>()).await;
    let (others, first) = send_concurrently(&fixture, &receiver, async || {
        tokio::time::pause();
        tokio::time::advance(LONG).await;
        tokio::time::resume();
    })
    .await;
    for outcome in others {
        assert_eq!(outcome.error_class(), Some(ErrorClass::Timeout), "{outcome:?}");
    }
    assert_eq!(first.http_status(), Some(200), "{first:?}");
}

#[tokio::test]
async fn a_connection_that_breaks_fails_each_request_on_it_once() {
    let fixture = Fixture::new();
    let receiver = fixture.receiver(HTTP2, [Read, respond(HTTP2), Read, Read, Read, Reset]).await;
    assert_eq!(fixture.send_to(&receiver).await.http_status(), Some(200));
    for outcome in join_all((0..3).map(|_| fixture.send_to(&receiver))).await {
        assert_eq!(outcome.error_class(), Some(ErrorClass::Reset), "{outcome:?}");
    }
    assert_eq!((receiver.log.connections(), receiver.log.requests()), (1, 4));
    assert_response(&fixture.send_to(&receiver).await, 5);
}

#[tokio::test]
async fn a_receiver_with_one_concurrent_stream_gets_each_request_once() {
    let fixture = Fixture::new();
    let one_at_a_time = write(settings(&[(MAX_CONCURRENT_STREAMS, 1)]));
    let receiver = fixture.receiver(HTTP2, [one_at_a_time, Serve]).await;
    assert_response(&fixture.send_to(&receiver).await, 1);
    for outcome in join_all((0..10).map(|_| fixture.send_to(&receiver))).await {
        assert_eq!(outcome.http_status(), Some(200), "{outcome:?}");
    }
    assert_eq!(receiver.log.requests(), 11);
}

#[tokio::test]
async fn a_port_without_listener_is_a_failure_to_connect() {
    // Binds the port without listening on it, so that no other process can use it.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let url = format!("http://{}/hook", socket.local_addr().unwrap());
    let outcome = Fixture::new().send(&url, SMALL_BYTES, AMPLE).await;
    assert_eq!(outcome.error_class(), Some(ErrorClass::Connect), "{outcome:?}");
}

#[tokio::test]
async fn a_receiver_that_never_accepts_is_a_timeout() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    // Fills the listener's backlog.
    let clients: Vec<_> = (0..8).map(|_| tokio::spawn(TcpStream::connect(address))).collect();
    assert!(wait_until(|| clients.iter().any(JoinHandle::is_finished)).await, "no client has connected");
    assert!(clients.iter().any(|client| !client.is_finished()), "the backlog is not full");
    let outcome = Fixture::new().send(&format!("http://{address}/hook"), SMALL_BYTES, SHORT).await;
    assert_eq!(outcome.error_class(), Some(ErrorClass::Timeout), "{outcome:?}");
}

#[tokio::test]
async fn a_stalled_lookup_is_a_timeout_and_a_missing_name_a_dns_failure() {
    let fixture = Fixture::new();
    for (name, deadline, class) in
        [(STALLED_NAME, SHORT, ErrorClass::Timeout), ("nowhere.example", AMPLE, ErrorClass::Dns)]
    {
        let outcome = fixture.send(&format!("https://{name}/hook"), SMALL_BYTES, deadline).await;
        assert_eq!(outcome.error_class(), Some(class), "{outcome:?}");
    }
}
