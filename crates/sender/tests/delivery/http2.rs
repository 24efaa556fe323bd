//! HTTP/2, where a receiver offers it.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

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
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::net::TcpListener;
use tokio::sync::{Barrier, watch};
use tokio_rustls::TlsAcceptor;

use crate::receiver::{SECRET, lease, send, sender};

struct Http2Receiver {
    port: u16,
    certificate: tempfile::NamedTempFile,
    opened: Arc<AtomicUsize>,
    arrived: watch::Sender<usize>,
}

impl Http2Receiver {
    /// Answers when so many requests have arrived, of which it takes so many at once on one connection.
    async fn answering_together(requests: usize, streams_max: u32) -> Self {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(certificate.path(), cert.pem()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![cert.der().clone()],
                PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap(),
            )
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let opened = Arc::new(AtomicUsize::new(0));
        let (counter, together) = (Arc::clone(&opened), Arc::new(Barrier::new(requests)));
        let arrived = watch::Sender::new(0);
        let arrivals = arrived.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counter.fetch_add(1, Ordering::SeqCst);
                let stream = acceptor.accept(stream).await.unwrap();
                let (together, arrivals) = (Arc::clone(&together), arrivals.clone());
                let answer = service_fn(move |request| {
                    arrivals.send_modify(|arrived| *arrived += 1);
                    answer(request, Arc::clone(&together))
                });
                let mut server = http2::Builder::new(TokioExecutor::new());
                server.max_concurrent_streams(streams_max);
                tokio::spawn(server.serve_connection(TokioIo::new(stream), answer));
            }
        });
        Self { port, certificate, opened, arrived }
    }

    async fn has(&self, requests: usize) {
        self.arrived.subscribe().wait_for(|arrived| *arrived >= requests).await.unwrap();
    }

    fn url(&self) -> String {
        format!("https://127.0.0.1:{}/hook?a=b", self.port)
    }
}

/// Says what it was sent.
async fn answer(
    request: Request<Incoming>,
    together: Arc<Barrier>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    assert_eq!(request.version(), Version::HTTP_2);
    assert!(!request.headers().contains_key("host"));
    let said = format!("{} {}", request.uri(), request.headers()["webhook-id"].to_str().unwrap());
    let body = request.into_body().collect().await.unwrap().to_bytes();
    together.wait().await;
    Ok(Response::new(Full::from([said.as_bytes(), b" ", &body].concat())))
}

#[tokio::test]
async fn a_receiver_that_offers_http2_gets_all_requests_over_one_connection_at_once() {
    let receiver = Http2Receiver::answering_together(1, 200).await;
    let sender = sender(&[SECRET], |options| {
        options.ca_file = Some(receiver.certificate.path().to_owned());
    });
    let lease = lease(&receiver.url());
    let outcome = send(&sender, &lease).await;
    let expected = format!("{} msg_p5jXN8AQM9LWM0D4loKWxJek {{\"test\": 2432232314}}", receiver.url());
    assert_eq!((outcome.http_status(), outcome.excerpt().as_str()), (Some(200), expected.as_str()));
    for outcome in join_all((0..30).map(|_| send(&sender, &lease))).await {
        assert_eq!(outcome.http_status(), Some(200));
    }
    assert_eq!(receiver.opened.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn what_one_connection_does_not_carry_goes_over_another() {
    for (requests, streams_max, connections) in [(20, 200, 1), (100, 200, 4), (9, 3, 3)] {
        let receiver = Http2Receiver::answering_together(requests, streams_max).await;
        let sender = sender(&[SECRET], |options| {
            options.ca_file = Some(receiver.certificate.path().to_owned());
        });
        let lease = lease(&receiver.url());
        // One after the other until what the receiver allows is known, or all would dial at once.
        let mut sending = FuturesUnordered::new();
        for _ in 0..requests {
            sending.push(send(&sender, &lease));
            let sent = sending.len();
            let _ = select(sending.next(), pin!(receiver.has(sent))).await;
        }
        while let Some(outcome) = sending.next().await {
            assert_eq!(outcome.http_status(), Some(200));
        }
        assert_eq!(receiver.opened.load(Ordering::SeqCst), connections, "{requests} of {streams_max}");
    }
}
