//! What receivers do between two requests, and to connections as such.

use std::net::Ipv4Addr;
use std::time::Duration;

use futures_util::future::join_all;
use posthaste_domain::{ErrorClass, Outcome};
use tokio::net::{TcpSocket, TcpStream};

use crate::stage::behaviours_http1::OK;
use crate::stage::certificates::Handshake;
use crate::stage::frames::{
    DATA, END_STREAM, FIRST, MAX_CONCURRENT_STREAMS, NO_ERROR, STATUS_200, frame, goaway, headers, settings,
};
use crate::stage::receiver::Receiver;
use crate::stage::script::Step::{self, Close, Read, ReadHead, Reset, Serve, Silence, Wait};
use crate::stage::script::{SMALL_BYTES, Transport, write};
use crate::stage::time::{becomes, wait};
use crate::stage::world::{STALLING_NAME, World};

const HTTP2: Transport = Transport::Tls(Handshake::Http2);
const EVERY_WAY: [Transport; 3] = [Transport::Plain, Transport::Tls(Handshake::Http1), HTTP2];

const SHORT: Duration = Duration::from_secs(1);
/// What happened to an idle connection takes this long to reach the sender's end of it.
const A_MOMENT: Duration = Duration::from_millis(100);

fn assert_answer(outcome: &Outcome, number: usize) {
    assert_eq!(outcome.http_status(), Some(200), "{outcome:?}");
    assert_eq!(outcome.excerpt().as_str(), format!("answer to request {number}"));
}

#[tokio::test]
async fn requests_one_after_another_share_one_connection() {
    let world = World::new();
    for over in EVERY_WAY {
        let receiver = world.receiver(over, [Serve]).await;
        for number in 1..=5 {
            assert_answer(&world.send_to(&receiver).await, number);
        }
        assert_eq!((receiver.seen.connections(), receiver.seen.requests()), (1, 5), "{over:?}");
    }
}

#[tokio::test]
async fn a_body_is_read_to_its_end_for_the_sake_of_its_connection_but_no_further_than_16_kib() {
    let world = World::new();
    for (body_bytes, connections) in [(16 << 10, 1), (100 << 10, 2)] {
        let body = "a".repeat(body_bytes);
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {body_bytes}\r\n\r\n{body}");
        let receiver = world.receiver(Transport::Plain, [Read, write(answer), Serve]).await;
        assert_eq!(world.send_to(&receiver).await.http_status(), Some(200));
        assert_answer(&world.send_to(&receiver).await, 2);
        assert_eq!(receiver.seen.connections(), connections, "{body_bytes} bytes");
    }
}

/// One answer, then this once the test says so; the next request must be seen once, over a new connection, and get the
/// answer that is meant for it.
async fn assert_next_request_is_delivered_after<const N: usize>(over: Transport, steps: [Step; N]) {
    let world = World::new();
    let receiver = world.receiver(over, steps).await;
    assert_eq!(world.send_to(&receiver).await.http_status(), Some(200));
    receiver.go_on();
    wait(A_MOMENT).await;
    assert_answer(&world.send_to(&receiver).await, 2);
    assert_eq!((receiver.seen.connections(), receiver.seen.requests()), (2, 2), "{over:?}");
}

fn answer(over: Transport) -> Step {
    let http2 = [settings(&[]), headers(END_STREAM, FIRST, STATUS_200)].concat();
    if over == HTTP2 { write(http2) } else { write(OK) }
}

#[tokio::test]
async fn a_connection_that_was_closed_while_idle_is_replaced() {
    for over in EVERY_WAY {
        assert_next_request_is_delivered_after(over, [Read, answer(over), Wait, Close]).await;
    }
}

#[tokio::test]
async fn a_connection_that_was_cut_while_idle_is_replaced() {
    for over in EVERY_WAY {
        assert_next_request_is_delivered_after(over, [Read, answer(over), Wait, Step::Cut]).await;
    }
}

#[tokio::test]
async fn a_connection_that_was_reset_while_idle_is_replaced() {
    for over in EVERY_WAY {
        assert_next_request_is_delivered_after(over, [Read, answer(over), Wait, Reset]).await;
    }
}

#[tokio::test]
async fn an_answer_without_request_is_not_the_answer_to_the_next_one() {
    let stray = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nstray";
    for over in [Transport::Plain, Transport::Tls(Handshake::Http1)] {
        assert_next_request_is_delivered_after(over, [Read, write(OK), Wait, write(stray), Serve]).await;
    }
}

#[tokio::test]
async fn the_beginning_of_an_answer_without_request_is_not_that_of_the_next_one() {
    let stray = "HTTP/1.1 200 OK\r\nx-a: ";
    for over in [Transport::Plain, Transport::Tls(Handshake::Http1)] {
        assert_next_request_is_delivered_after(over, [Read, write(OK), Wait, write(stray), Serve]).await;
    }
}

#[tokio::test]
async fn a_goaway_while_idle_moves_the_next_request_to_a_new_connection() {
    let goaway = goaway(FIRST, NO_ERROR);
    assert_next_request_is_delivered_after(HTTP2, [Read, answer(HTTP2), Wait, write(goaway), Silence]).await;
}

#[tokio::test]
async fn a_request_that_a_used_connection_swallowed_is_not_sent_again() {
    let world = World::new();
    for over in EVERY_WAY {
        for end in [Close, Step::Cut, Reset] {
            let receiver = world.receiver(over, [Read, answer(over), ReadHead, end]).await;
            assert_eq!(world.send_to(&receiver).await.http_status(), Some(200));
            let second = world.send_to(&receiver).await;
            assert_eq!(second.error_class(), Some(ErrorClass::Reset), "{over:?}: {second:?}");
            assert_eq!((receiver.seen.connections(), receiver.seen.requests()), (1, 2), "{over:?}");
            assert_answer(&world.send_to(&receiver).await, 3);
        }
    }
}

#[tokio::test]
async fn a_connection_whose_request_timed_out_is_not_used_again() {
    let world = World::new();
    for over in EVERY_WAY {
        let receiver = world.receiver(over, [Read, answer(over), Read, Wait, answer(over), Serve]).await;
        assert_eq!(world.send_to(&receiver).await.http_status(), Some(200));
        let second = world.send(&receiver.url, SMALL_BYTES, SHORT).await;
        assert_eq!(second.error_class(), Some(ErrorClass::Timeout), "{over:?}: {second:?}");
        // The late answer meets the next request.
        receiver.go_on();
        assert_answer(&world.send_to(&receiver).await, 3);
        assert_eq!(receiver.seen.connections(), 2, "{over:?}");
    }
}

#[tokio::test]
async fn a_request_that_times_out_leaves_the_others_on_its_connection_alone() {
    let world = World::new();
    let late =
        [Read, answer(HTTP2), Read, Read, Wait, write(headers(END_STREAM, FIRST + 4, STATUS_200)), Serve];
    let receiver = world.receiver(HTTP2, late).await;
    assert_eq!(world.send_to(&receiver).await.http_status(), Some(200));
    let impatient = async {
        let outcome = world.send(&receiver.url, SMALL_BYTES, SHORT).await;
        receiver.go_on();
        outcome
    };
    let patient = async {
        assert!(becomes(|| receiver.seen.requests() == 2).await);
        world.send_to(&receiver).await
    };
    let (impatient, patient) = tokio::join!(impatient, patient);
    assert_eq!(impatient.error_class(), Some(ErrorClass::Timeout), "{impatient:?}");
    assert_eq!(patient.http_status(), Some(200), "{patient:?}");
    assert_eq!((receiver.seen.connections(), receiver.seen.requests()), (1, 3));
}

/// As many as one connection carries.
const CROWD: u32 = 32;
/// How long they wait, and how long the first of them does.
const LONG: Duration = Duration::from_secs(60);
const LONGER: Duration = Duration::from_secs(3_600);
/// More of a body than is read, in two frames, and what its receiver may still send of it unasked.
const CUT_OFF: [usize; 2] = [16 << 10, 1];
const STILL_COMING: usize = (16 << 10) - 1;

/// The streams of all requests of a crowd but the first. Before them all, one request opened the connection.
fn streams_of_the_others() -> impl Iterator<Item = u32> {
    (2..=CROWD).map(|number| FIRST + 2 * number)
}

fn body(stream: u32, pieces: &[usize]) -> Vec<u8> {
    let frames = pieces.iter().map(|bytes| frame(DATA, 0, stream, &vec![b'a'; *bytes]));
    frames.flatten().collect()
}

/// Opens a connection and shares it with a crowd. The outcomes of all but the first; when they are there, the receiver
/// goes on, and then there is that of the first.
async fn crowd(
    world: &World,
    receiver: &Receiver,
    once_all_arrived: impl AsyncFnOnce(),
) -> (Vec<Outcome>, Outcome) {
    assert_eq!(world.send_to(receiver).await.http_status(), Some(200));
    let others = async {
        let others = join_all((1..CROWD).map(|_| world.send(&receiver.url, SMALL_BYTES, LONG)));
        let arrived = async {
            receiver.seen.has(usize::try_from(CROWD).unwrap() + 1).await;
            once_all_arrived().await;
        };
        let (others, ()) = tokio::join!(others, arrived);
        receiver.go_on();
        others
    };
    let patient = world.send(&receiver.url, SMALL_BYTES, LONGER);
    let (patient, others) = tokio::join!(patient, others);
    assert_eq!(receiver.seen.connections(), 1);
    (others, patient)
}

#[tokio::test]
async fn what_still_comes_of_answers_that_were_cut_off_costs_the_others_nothing() {
    let world = World::new();
    let begun =
        streams_of_the_others().flat_map(|stream| [headers(0, stream, STATUS_200), body(stream, &CUT_OFF)]);
    let rest = streams_of_the_others().map(|stream| body(stream, &[STILL_COMING]));
    let last = headers(END_STREAM, FIRST + 2, STATUS_200);
    let steps = [Read, answer(HTTP2)]
        .into_iter()
        .chain((0..CROWD).map(|_| Read))
        .chain([write(begun.flatten().collect::<Vec<_>>()), Wait])
        .chain([write(rest.flatten().collect::<Vec<_>>()), write(last), Silence]);
    let receiver = world.receiver(HTTP2, steps.collect::<Vec<_>>()).await;
    let (others, patient) = crowd(&world, &receiver, async || ()).await;
    for outcome in others.iter().chain([&patient]) {
        assert_eq!(outcome.http_status(), Some(200), "{outcome:?}");
    }
}

#[tokio::test]
async fn late_answers_to_requests_that_timed_out_cost_the_others_nothing() {
    let world = World::new();
    let late = streams_of_the_others()
        .flat_map(|stream| [headers(0, stream, STATUS_200), body(stream, &[16 << 10, 16 << 10])]);
    let last = headers(END_STREAM, FIRST + 2, STATUS_200);
    let steps = [Read, answer(HTTP2)].into_iter().chain((0..CROWD).map(|_| Read)).chain([
        Wait,
        write(late.flatten().collect::<Vec<_>>()),
        write(last),
        Silence,
    ]);
    let receiver = world.receiver(HTTP2, steps.collect::<Vec<_>>()).await;
    let (others, patient) = crowd(&world, &receiver, async || {
        tokio::time::pause();
        tokio::time::advance(LONG).await;
        tokio::time::resume();
    })
    .await;
    for outcome in others {
        assert_eq!(outcome.error_class(), Some(ErrorClass::Timeout), "{outcome:?}");
    }
    assert_eq!(patient.http_status(), Some(200), "{patient:?}");
}

#[tokio::test]
async fn a_connection_that_breaks_fails_each_request_on_it_once() {
    let world = World::new();
    let receiver = world.receiver(HTTP2, [Read, answer(HTTP2), Read, Read, Read, Reset]).await;
    assert_eq!(world.send_to(&receiver).await.http_status(), Some(200));
    for outcome in join_all((0..3).map(|_| world.send_to(&receiver))).await {
        assert_eq!(outcome.error_class(), Some(ErrorClass::Reset), "{outcome:?}");
    }
    assert_eq!((receiver.seen.connections(), receiver.seen.requests()), (1, 4));
    assert_answer(&world.send_to(&receiver).await, 5);
}

#[tokio::test]
async fn a_receiver_that_takes_one_request_at_a_time_gets_each_once() {
    let world = World::new();
    let one_at_a_time = write(settings(&[(MAX_CONCURRENT_STREAMS, 1)]));
    let receiver = world.receiver(HTTP2, [one_at_a_time, Serve]).await;
    assert_answer(&world.send_to(&receiver).await, 1);
    for outcome in join_all((0..10).map(|_| world.send_to(&receiver))).await {
        assert_eq!(outcome.http_status(), Some(200), "{outcome:?}");
    }
    assert_eq!(receiver.seen.requests(), 11);
}

#[tokio::test]
async fn a_port_that_nobody_listens_on_refuses_the_connection() {
    // Bound, so that nobody else gets it, and never listened on.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let url = format!("http://{}/hook", socket.local_addr().unwrap());
    let outcome = World::new().send(&url, SMALL_BYTES, SHORT).await;
    assert_eq!(outcome.error_class(), Some(ErrorClass::Connect), "{outcome:?}");
}

#[tokio::test]
async fn a_receiver_that_never_accepts_is_a_timeout() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    // Fills the queue of those who wait to be accepted.
    let callers: Vec<_> = (0..8).map(|_| tokio::spawn(TcpStream::connect(address))).collect();
    wait(A_MOMENT).await;
    assert!(callers.iter().any(|caller| !caller.is_finished()), "the queue is full");
    let outcome = World::new().send(&format!("http://{address}/hook"), SMALL_BYTES, SHORT).await;
    assert_eq!(outcome.error_class(), Some(ErrorClass::Timeout), "{outcome:?}");
}

#[tokio::test]
async fn a_name_that_is_never_looked_up_is_a_timeout_and_one_without_address_is_dns() {
    let world = World::new();
    for (name, class) in [(STALLING_NAME, ErrorClass::Timeout), ("nowhere.example", ErrorClass::Dns)] {
        let outcome = world.send(&format!("https://{name}/hook"), SMALL_BYTES, SHORT).await;
        assert_eq!(outcome.error_class(), Some(class), "{outcome:?}");
    }
}
