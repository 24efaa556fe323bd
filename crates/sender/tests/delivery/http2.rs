//! Deliveries over HTTP/2, to receivers that offer it.

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

/// Body size far beyond the part that the sender reads.
const OVERLONG_BYTES: usize = 100 * 1024;

struct Http2Receiver {
    port: u16,
    certificate: Certificate,
    connections: Connections,
    arrived: watch::Sender<usize>,
}

impl Http2Receiver {
    /// Starts a receiver that responds to requests in groups: only when `requests` have arrived. It allows `streams_max`
    /// concurrent requests per connection.
    async fn responding_in_groups(requests: usize, streams_max: u32) -> Self {
        let certificate = Certificate::with_alpn("h2");
        let acceptor = certificate.acceptor();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Connections::default();
        let (connection_counter, group) = (connections.clone(), Arc::new(Barrier::new(requests)));
        let arrived = watch::Sender::new(0);
        let arrivals = arrived.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let open = connection_counter.open();
                let (acceptor, group, arrivals) = (acceptor.clone(), Arc::clone(&group), arrivals.clone());
                tokio::spawn(async move {
                    let service = service_fn(move |request| {
                        arrivals.send_modify(|arrived| *arrived += 1);
                        respond(request, Arc::clone(&group))
                    });
                    let mut server = http2::Builder::new(TokioExecutor::new());
                    server.max_concurrent_streams(streams_max);
                    let stream = acceptor.accept(stream).await.unwrap();
                    // Fails when the sender closes the connection in the middle of a request.
                    let _ = server.serve_connection(TokioIo::new(stream), service).await;
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

    async fn wait_for_requests(&self, requests: usize) {
        self.arrived.subscribe().wait_for(|arrived| *arrived >= requests).await.unwrap();
    }

    fn url(&self) -> String {
        format!("https://127.0.0.1:{}/hook?a=b", self.port)
    }

    fn url_of_overlong_response(&self) -> String {
        format!("https://127.0.0.1:{}/overlong", self.port)
    }
}

/// Responds with the URL, id and body of the request. Pads the body for `/overlong`.
async fn respond(
    request: Request<Incoming>,
    group: Arc<Barrier>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    assert_eq!(request.version(), Version::HTTP_2);
    assert!(!request.headers().contains_key("host"));
    let path = request.uri().path().to_owned();
    let head = format!("{} {}", request.uri(), request.headers()["webhook-id"].to_str().unwrap());
    let body = request.into_body().collect().await.unwrap().to_bytes();
    group.wait().await;
    let mut body_text = [head.as_bytes(), b" ", &body].concat();
    if path == "/overlong" {
        body_text.resize(OVERLONG_BYTES, b'.');
    }
    Ok(Response::new(Full::from(body_text)))
}

#[tokio::test]
async fn concurrent_requests_share_one_http2_connection() {
    let receiver = Http2Receiver::responding_in_groups(1, 200).await;
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

/// Sends concurrent requests. Each starts when the previous one has arrived: by then the sender knows the receiver's
/// limit of streams, and the requests do not all open connections.
async fn send_staggered(sender: &HttpSender, receiver: &Http2Receiver, requests: usize) {
    let lease = lease(&receiver.url());
    let before = *receiver.arrived.borrow();
    let mut sending = FuturesUnordered::new();
    for sent in 1..=requests {
        sending.push(send(sender, &lease));
        let _ = select(sending.next(), pin!(receiver.wait_for_requests(before + sent))).await;
    }
    while let Some(outcome) = sending.next().await {
        assert_eq!(outcome.http_status(), Some(200), "{outcome:?}");
    }
}

#[tokio::test]
async fn requests_beyond_the_stream_limit_use_another_connection() {
    for (requests, streams_max, connections) in [(20, 200, 1), (100, 200, 4), (9, 3, 3)] {
        let receiver = Http2Receiver::responding_in_groups(requests, streams_max).await;
        send_staggered(&receiver.sender(|_| ()), &receiver, requests).await;
        assert_eq!(receiver.connections.opened(), connections, "{requests} of {streams_max}");
    }
}

#[tokio::test]
async fn overlong_responses_retire_their_connection_and_are_delivered() {
    let receiver = Http2Receiver::responding_in_groups(1, 200).await;
    let sender = receiver.sender(|_| ());
    let (short, overlong) = (lease(&receiver.url()), lease(&receiver.url_of_overlong_response()));
    for (concurrent, opened) in [1, 20, 20, 1, 20, 20].into_iter().zip(1..) {
        assert_eq!(send(&sender, &short).await.http_status(), Some(200));
        for outcome in join_all((0..concurrent).map(|_| send(&sender, &overlong))).await {
            assert_eq!(outcome.http_status(), Some(200), "{outcome:?}");
        }
        assert_eq!(receiver.connections.opened(), opened);
        receiver.connections.wait_for_open(0).await;
    }
}

#[tokio::test]
async fn of_connections_opened_concurrently_only_the_needed_ones_are_pooled() {
    let receiver = Http2Receiver::responding_in_groups(20, 200).await;
    let sender = receiver.sender(|_| ());
    let lease = lease(&receiver.url());
    for outcome in join_all((0..20).map(|_| send(&sender, &lease))).await {
        assert_eq!(outcome.http_status(), Some(200), "{outcome:?}");
    }
    receiver.connections.wait_for_open(1).await;
    let opened = receiver.connections.opened();
    for outcome in join_all((0..20).map(|_| send(&sender, &lease))).await {
        assert_eq!(outcome.http_status(), Some(200), "{outcome:?}");
    }
    assert_eq!(receiver.connections.opened(), opened, "the pooled connection carries all requests");
}

#[tokio::test]
async fn pooled_http2_connections_to_one_receiver_are_limited() {
    let receiver = Http2Receiver::responding_in_groups(100, 200).await;
    let sender = receiver.sender(|options| options.pool_size = 2);
    send_staggered(&sender, &receiver, 100).await;
    assert_eq!(receiver.connections.opened(), 4);
    receiver.connections.wait_for_open(2).await;
    send_staggered(&sender, &receiver, 100).await;
    assert_eq!(receiver.connections.opened(), 6, "the pooled connections are used first");
    receiver.connections.wait_for_open(2).await;
}
