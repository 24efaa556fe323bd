//! Reuse and limits of connections between requests.

use futures_util::StreamExt as _;
use futures_util::future::join_all;
use posthaste_domain::{DestinationId, Lease};
use posthaste_engine::{LocalShortage, Sender as _, host_time};
use posthaste_sender::HttpSender;

use crate::receiver::{Receiver, SECRET, TIMEOUT, lease, send, sender};

#[tokio::test]
async fn sequential_requests_share_one_connection() {
    let receiver = Receiver::accepting().await;
    let sender = sender(&[SECRET], |_| ());
    for _ in 0..20 {
        assert_eq!(send(&sender, &lease(&receiver.url())).await.http_status(), Some(200));
    }
    assert_eq!(receiver.requests().len(), 20);
    assert_eq!(receiver.connections().opened(), 1);
}

#[tokio::test]
async fn pooled_connections_to_one_receiver_are_limited() {
    let receiver = Receiver::accepting().await;
    let sender = sender(&[SECRET], |options| options.pool_size = 2);
    let lease = lease(&receiver.url());
    for outcome in join_all((0..8).map(|_| send(&sender, &lease))).await {
        assert_eq!(outcome.http_status(), Some(200));
    }
    assert!(
        receiver.connections().opened() > 2,
        "eight concurrent requests need more connections than the limit"
    );
    receiver.connections().wait_for_open(2).await;
}

#[tokio::test]
async fn pooled_connections_are_limited_in_total_and_the_oldest_is_closed_first() {
    let receivers = join_all((0..4).map(|_| Receiver::accepting())).await;
    let sender = sender(&[SECRET], |options| options.pool_size_total = 3);
    for receiver in &receivers {
        assert_eq!(send(&sender, &lease(&receiver.url())).await.http_status(), Some(200));
    }
    for (receiver, open) in receivers.iter().zip([0, 1, 1, 1]) {
        receiver.connections().wait_for_open(open).await;
    }
}

#[tokio::test]
async fn a_pool_of_size_zero_keeps_no_connection() {
    let receiver = Receiver::accepting().await;
    let sender = sender(&[SECRET], |options| options.pool_size = 0);
    for sent in 1..=3 {
        assert_eq!(send(&sender, &lease(&receiver.url())).await.http_status(), Some(200));
        assert_eq!(receiver.connections().opened(), sent);
        receiver.connections().wait_for_open(0).await;
    }
}

#[tokio::test]
async fn a_connection_is_not_reused_after_connection_close() {
    let receiver =
        Receiver::responding_with("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok")
            .await;
    let sender = sender(&[SECRET], |_| ());
    for sent in 1..=3 {
        assert_eq!(send(&sender, &lease(&receiver.url())).await.http_status(), Some(200));
        assert_eq!(receiver.connections().opened(), sent);
    }
}

#[tokio::test]
async fn an_overlong_response_closes_its_connection_and_is_delivered() {
    let body = "x".repeat(200_000);
    let length = body.len();
    let receiver =
        Receiver::responding_with(format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}")).await;
    let sender = sender(&[SECRET], |_| ());
    for sent in 1..=2 {
        assert_eq!(send(&sender, &lease(&receiver.url())).await.http_status(), Some(200));
        assert_eq!(receiver.connections().opened(), sent);
        receiver.connections().wait_for_open(0).await;
    }
}

#[tokio::test]
async fn destinations_of_one_receiver_share_its_connections() {
    let receiver = Receiver::accepting().await;
    let sender = sender(&[SECRET], |_| ());
    for path in ["a", "b", "c?d"] {
        let lease = lease(&format!("http://{}/{path}", receiver.address));
        assert_eq!(send(&sender, &lease).await.http_status(), Some(200));
    }
    assert_eq!(receiver.connections().opened(), 1);
}

/// Sends requests to destinations in turn, at most `in_flight` at once. Expects that all are delivered.
async fn send_in_turn(sender: &HttpSender, destinations: &[Lease], requests: usize, in_flight: usize) {
    let sending = (0..requests).map(|number| send(sender, &destinations[number % destinations.len()]));
    let outcomes = futures_util::stream::iter(sending).buffer_unordered(in_flight);
    let delivered = outcomes.filter(|outcome| std::future::ready(outcome.http_status() == Some(200)));
    assert_eq!(delivered.count().await, requests);
}

/// Destinations with ids of their own.
fn destinations(urls: impl Iterator<Item = String>) -> Vec<Lease> {
    let ids = (1..).map(DestinationId);
    ids.zip(urls).map(|(destination_id, url)| Lease { destination_id, ..lease(&url) }).collect()
}

#[tokio::test]
async fn twenty_destinations_of_one_receiver_open_no_more_connections_than_requests_in_flight() {
    let receiver = Receiver::accepting().await;
    let sender = sender(&[SECRET], |_| ());
    let urls = (0..20).map(|number| format!("http://{}/{number}", receiver.address));
    send_in_turn(&sender, &destinations(urls), 20_000, 400).await;
    let opened = receiver.connections().opened();
    assert!(opened <= 400, "{opened} connections were opened for 400 requests in flight");
}

#[tokio::test]
async fn two_hundred_receivers_open_at_most_twice_as_many_connections_as_requests_in_flight() {
    let receiver = Receiver::accepting_on_all_loopback_addresses().await;
    let sender = sender(&[SECRET], |_| ());
    let urls = (1..=200).map(|host| format!("http://127.0.0.{host}:{}/hook", receiver.address.port()));
    send_in_turn(&sender, &destinations(urls), 20_000, 200).await;
    let opened = receiver.connections().opened();
    assert!(opened <= 400, "{opened} connections were opened for 200 requests in flight");
}

#[tokio::test]
async fn idle_connections_give_way_when_the_sockets_are_used_up() {
    let receivers = join_all((0..4).map(|_| Receiver::accepting())).await;
    let sender = sender(&[SECRET], |options| options.sockets_max = Some(3));
    for receiver in &receivers {
        assert_eq!(send(&sender, &lease(&receiver.url())).await.http_status(), Some(200));
    }
    for (receiver, open) in receivers.iter().zip([0, 1, 1, 1]) {
        receiver.connections().wait_for_open(open).await;
    }
}

#[tokio::test]
async fn a_request_without_a_socket_is_a_shortage_and_no_outcome() {
    let receiver = Receiver::accepting().await;
    let sender = sender(&[SECRET], |options| options.sockets_max = Some(0));
    let sent = sender.send(&lease(&receiver.url()), host_time(), TIMEOUT).await;
    assert_eq!(sent, Err(LocalShortage::OpenFiles));
    assert_eq!(receiver.connections().opened(), 0);
}
