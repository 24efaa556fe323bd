//! What becomes of connections between requests.

use futures_util::future::join_all;

use crate::receiver::{Receiver, SECRET, lease, send, sender};

#[tokio::test]
async fn one_connection_carries_one_request_after_another() {
    let receiver = Receiver::accepting().await;
    let sender = sender(&[SECRET], |_| ());
    for _ in 0..20 {
        assert_eq!(send(&sender, &lease(&receiver.url())).await.http_status(), Some(200));
    }
    assert_eq!(receiver.requests().len(), 20);
    assert_eq!(receiver.connections().opened(), 1);
}

#[tokio::test]
async fn no_more_connections_to_one_receiver_are_kept_than_allowed() {
    let receiver = Receiver::accepting().await;
    let sender = sender(&[SECRET], |options| options.pool_size = 2);
    let lease = lease(&receiver.url());
    for outcome in join_all((0..8).map(|_| send(&sender, &lease))).await {
        assert_eq!(outcome.http_status(), Some(200));
    }
    assert!(receiver.connections().opened() > 2, "eight at once need more than are kept");
    receiver.connections().become_so_many(2).await;
}

#[tokio::test]
async fn no_more_connections_in_all_are_kept_than_allowed_and_the_oldest_goes_first() {
    let receivers = join_all((0..4).map(|_| Receiver::accepting())).await;
    let sender = sender(&[SECRET], |options| options.pool_size_total = 3);
    for receiver in &receivers {
        assert_eq!(send(&sender, &lease(&receiver.url())).await.http_status(), Some(200));
    }
    for (receiver, open) in receivers.iter().zip([0, 1, 1, 1]) {
        receiver.connections().become_so_many(open).await;
    }
}

#[tokio::test]
async fn a_pool_of_no_connections_keeps_none() {
    let receiver = Receiver::accepting().await;
    let sender = sender(&[SECRET], |options| options.pool_size = 0);
    for sent in 1..=3 {
        assert_eq!(send(&sender, &lease(&receiver.url())).await.http_status(), Some(200));
        assert_eq!(receiver.connections().opened(), sent);
        receiver.connections().become_so_many(0).await;
    }
}

#[tokio::test]
async fn a_receiver_that_asks_to_close_is_not_sent_another_request_on_that_connection() {
    let receiver =
        Receiver::answering("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok").await;
    let sender = sender(&[SECRET], |_| ());
    for sent in 1..=3 {
        assert_eq!(send(&sender, &lease(&receiver.url())).await.http_status(), Some(200));
        assert_eq!(receiver.connections().opened(), sent);
    }
}

#[tokio::test]
async fn a_response_longer_than_is_read_costs_its_connection_and_nothing_else() {
    let body = "x".repeat(200_000);
    let length = body.len();
    let receiver =
        Receiver::answering(format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}")).await;
    let sender = sender(&[SECRET], |_| ());
    for sent in 1..=2 {
        assert_eq!(send(&sender, &lease(&receiver.url())).await.http_status(), Some(200));
        assert_eq!(receiver.connections().opened(), sent);
        receiver.connections().become_so_many(0).await;
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
