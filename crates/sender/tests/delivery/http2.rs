//! HTTP/2, where a receiver offers it.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::{join_all, select};
use futures_util::stream::FuturesUnordered;
use http::{Request, Response, Version};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use posthaste_sender::{HttpSender, SenderOptions};
use tokio::net::TcpListener;
use tokio::sync::{Barrier, watch};

use crate::certificate::Certificate;
use crate::receiver::{Connections, SECRET, lease, send, sender};

/// Much more than is read of a body.
const LONG_BYTES: usize = 100 * 1024;

struct Http2Receiver {
    port: u16,
    certificate: Certificate,
    connections: Connections,
    arrived: watch::Sender<usize>,
}

impl Http2Receiver {
    /// Answers when so many requests have arrived, of which it takes so many at once on one connection.
    async fn answering_together(requests: usize, streams_max: u32) -> Self {
        let certificate = Certificate::over("h2");
        let acceptor = certificate.acceptor();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Connections::default();
        let (counted, together) = (connections.clone(), Arc::new(Barrier::new(requests)));
        let arrived = watch::Sender::new(0);
        let arrivals = arrived.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let open = counted.open();
                let (acceptor, together, arrivals) =
                    (acceptor.clone(), Arc::clone(&together), arrivals.clone());
                tokio::spawn(async move {
                    let answer = service_fn(move |request| {
                        arrivals.send_modify(|arrived| *arrived += 1);
                        answer(request, Arc::clone(&together))
                    });
                    let mut server = http2::Builder::new(TokioExecutor::new());
                    server.max_concurrent_streams(streams_max);
                    let stream = acceptor.accept(stream).await.unwrap();
                    // Ends when the sender hangs up, which may be in the middle of anything.
                    let _ = server.serve_connection(TokioIo::new(stream), answer).await;
                    drop(open);
                });
            }
        });
        Self { port, certificate, connections, arrived }
    }

    fn sender(&self, change: impl FnOnce(&mut SenderOptions)) -> HttpSender {
        sender(&[SECRET], |options| {
            options.ca_file = Some(self.certificate.file());
            change(options);
        })
    }

    async fn has(&self, requests: usize) {
        self.arrived.subscribe().wait_for(|arrived| *arrived >= requests).await.unwrap();
    }

    fn url(&self) -> String {
        format!("https://127.0.0.1:{}/hook?a=b", self.port)
    }

    fn url_of_long_answer(&self) -> String {
        format!("https://127.0.0.1:{}/long", self.port)
    }
}

/// Says what it was sent, at the length that it was asked for.
async fn answer(
    request: Request<Incoming>,
    together: Arc<Barrier>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    assert_eq!(request.version(), Version::HTTP_2);
    assert!(!request.headers().contains_key("host"));
    let path = request.uri().path().to_owned();
    let said = format!("{} {}", request.uri(), request.headers()["webhook-id"].to_str().unwrap());
    let body = request.into_body().collect().await.unwrap().to_bytes();
    together.wait().await;
    let mut said = [said.as_bytes(), b" ", &body].concat();
    if path == "/long" {
        said.resize(LONG_BYTES, b'.');
    }
    Ok(Response::new(Full::from(said)))
}

#[tokio::test]
async fn a_receiver_that_offers_http2_gets_all_requests_over_one_connection_at_once() {
    let receiver = Http2Receiver::answering_together(1, 200).await;
    let sender = receiver.sender(|_| ());
    let lease = lease(&receiver.url());
    let outcome = send(&sender, &lease).await;
    let expected = format!("{} msg_p5jXN8AQM9LWM0D4loKWxJek {{\"test\": 2432232314}}", receiver.url());
    assert_eq!((outcome.http_status(), outcome.excerpt().as_str()), (Some(200), expected.as_str()));
    for outcome in join_all((0..30).map(|_| send(&sender, &lease))).await {
        assert_eq!(outcome.http_status(), Some(200));
    }
    assert_eq!(receiver.connections.opened(), 1);
}

/// So many requests that wait at once. Each begins when the one before has arrived: by then what the receiver allows is
/// known, and not all dial at once.
async fn gather(sender: &HttpSender, receiver: &Http2Receiver, requests: usize) {
    let lease = lease(&receiver.url());
    let before = *receiver.arrived.borrow();
    let mut sending = FuturesUnordered::new();
    for sent in 1..=requests {
        sending.push(send(sender, &lease));
        let _ = select(sending.next(), pin!(receiver.has(before + sent))).await;
    }
    while let Some(outcome) = sending.next().await {
        assert_eq!(outcome.http_status(), Some(200), "{outcome:?}");
    }
}

#[tokio::test]
async fn what_one_connection_does_not_carry_goes_over_another() {
    for (requests, streams_max, connections) in [(20, 200, 1), (100, 200, 4), (9, 3, 3)] {
        let receiver = Http2Receiver::answering_together(requests, streams_max).await;
        gather(&receiver.sender(|_| ()), &receiver, requests).await;
        assert_eq!(receiver.connections.opened(), connections, "{requests} of {streams_max}");
    }
}

#[tokio::test]
async fn answers_longer_than_is_read_cost_their_connection_and_nothing_else() {
    let receiver = Http2Receiver::answering_together(1, 200).await;
    let sender = receiver.sender(|_| ());
    let (short, long) = (lease(&receiver.url()), lease(&receiver.url_of_long_answer()));
    for (at_once, opened) in [1, 20, 20, 1, 20, 20].into_iter().zip(1..) {
        assert_eq!(send(&sender, &short).await.http_status(), Some(200));
        for outcome in join_all((0..at_once).map(|_| send(&sender, &long))).await {
            assert_eq!(outcome.http_status(), Some(200), "{outcome:?}");
        }
        assert_eq!(receiver.connections.opened(), opened);
        receiver.connections.become_so_many(0).await;
    }
}

#[tokio::test]
async fn of_connections_that_were_opened_at_once_only_those_that_are_needed_stay() {
    let receiver = Http2Receiver::answering_together(20, 200).await;
    let sender = receiver.sender(|_| ());
    let lease = lease(&receiver.url());
    for outcome in join_all((0..20).map(|_| send(&sender, &lease))).await {
        assert_eq!(outcome.http_status(), Some(200), "{outcome:?}");
    }
    receiver.connections.become_so_many(1).await;
    let opened = receiver.connections.opened();
    for outcome in join_all((0..20).map(|_| send(&sender, &lease))).await {
        assert_eq!(outcome.http_status(), Some(200), "{outcome:?}");
    }
    assert_eq!(receiver.connections.opened(), opened, "the one that stayed carries them all");
}

#[tokio::test]
async fn no_more_shared_connections_to_one_receiver_are_kept_than_allowed() {
    let receiver = Http2Receiver::answering_together(100, 200).await;
    let sender = receiver.sender(|options| options.pool_size = 2);
    gather(&sender, &receiver, 100).await;
    assert_eq!(receiver.connections.opened(), 4);
    receiver.connections.become_so_many(2).await;
    gather(&sender, &receiver, 100).await;
    assert_eq!(receiver.connections.opened(), 6, "those that were kept carry what they can");
    receiver.connections.become_so_many(2).await;
}
