//! Tests of the pool under paused time. Connections are in memory, because sockets would run in real time.

use super::*;
use tokio::io::{AsyncReadExt as _, DuplexStream};
use url::Host;

use crate::connection::StreamSlot;
use crate::receive_budget::ReceiveBudget;
use crate::stream::Stream;

const A_SECOND: Duration = Duration::from_secs(1);

fn origin() -> Arc<Origin> {
    Arc::new(Origin { secure: true, host: Host::Domain("receiver.example".to_owned()), port: 443 })
}

fn another_origin() -> Arc<Origin> {
    Arc::new(Origin { port: 8443, ..(*origin()).clone() })
}

/// An empty pool, and the connections to one origin.
fn pool_and_origin(per_origin_kept: usize, total_max: usize) -> (Arc<Pool>, Arc<OriginConnections>) {
    let pool = Pool::new(per_origin_kept, total_max);
    let origin = pool.connections_to(&origin());
    (pool, origin)
}

fn memory_stream() -> (Stream, DuplexStream) {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    (Stream::Memory(ours), theirs)
}

async fn http1() -> (Box<Http1Connection>, DuplexStream) {
    let (stream, receiver) = memory_stream();
    (Box::new(Http1Connection::open(stream, ReceiveBudget::new()).await.unwrap()), receiver)
}

async fn http2() -> (StreamSlot, DuplexStream) {
    let (stream, receiver) = memory_stream();
    (Http2Connection::open(stream, ReceiveBudget::new()).await.unwrap().reserve_first_slot(), receiver)
}

/// A pool with one idle connection of each kind, to two receivers.
async fn pool_with_both_kinds() -> (Arc<Pool>, [(Arc<OriginConnections>, DuplexStream); 2]) {
    let pool = Pool::new(4, 8);
    let (older, newer) = (pool.connections_to(&origin()), pool.connections_to(&another_origin()));
    let ((http1, receiver_http1), (http2, receiver_http2)) = (http1().await, http2().await);
    pool.put(&older, http1);
    pool.share(&newer, http2.connection());
    http2.complete();
    (pool, [(older, receiver_http1), (newer, receiver_http2)])
}

/// Takes a connection and returns it at once, as after a request. Returns false if the pool has no connection.
async fn use_once(pool: &Pool, origin: &OriginConnections) -> bool {
    match pool.take(origin).await {
        Some(Connection::Http1(connection)) => pool.put(origin, connection),
        Some(Connection::Http2(slot)) => slot.complete(),
        None => return false,
    }
    true
}

/// Takes all connections and free slots in the pool.
async fn take_all(pool: &Pool, origin: &OriginConnections) -> Vec<Connection> {
    let mut taken = Vec::new();
    while let Some(connection) = pool.take(origin).await {
        taken.push(connection);
    }
    taken
}

/// Advances paused time, running the tasks that become due.
#[expect(clippy::disallowed_methods, reason = "time is paused: a sleep advances it")]
async fn advance(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Waits until the sender closes a connection and returns the time. Waiting advances paused time.
#[expect(
    clippy::disallowed_methods,
    reason = "time is paused: bounds the wait for a connection that stays open"
)]
async fn closed_at(mut receiver: DuplexStream) -> Instant {
    let mut received = Vec::new();
    let reading = tokio::time::timeout(10 * AGE_MAX, receiver.read_to_end(&mut received));
    reading.await.expect("the sender never closed the connection").unwrap();
    now()
}

#[tokio::test(start_paused = true)]
async fn unused_connection_is_closed_after_the_idle_limit() {
    let (pool, both) = pool_with_both_kinds().await;
    // Use the connections between two sweeps, so that the idle limit does not coincide with a sweep.
    advance(SWEEP_INTERVAL / 2).await;
    let mut receivers = Vec::new();
    for (origin, receiver) in both {
        assert!(use_once(&pool, &origin).await);
        receivers.push(receiver);
    }
    let used_at = now();
    for receiver in receivers {
        let idle = closed_at(receiver).await - used_at;
        assert!((IDLE_MAX..=IDLE_MAX + SWEEP_INTERVAL).contains(&idle), "{idle:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn connection_in_regular_use_stays_until_the_age_limit() {
    let (pool, both) = pool_with_both_kinds().await;
    let opened_at = now();
    while now() + IDLE_MAX / 2 < opened_at + AGE_MAX {
        for (origin, _) in &both {
            assert!(use_once(&pool, origin).await, "after {:?}", now() - opened_at);
        }
        advance(IDLE_MAX / 2).await;
    }
    advance(opened_at + AGE_MAX - now() - A_SECOND).await;
    for (origin, _) in &both {
        assert!(use_once(&pool, origin).await);
    }
    advance(A_SECOND).await;
    for (origin, _) in &both {
        assert!(!use_once(&pool, origin).await, "a connection was used beyond the age limit");
    }
}

#[tokio::test(start_paused = true)]
async fn connection_with_a_request_in_flight_never_counts_as_idle() {
    let (pool, origin) = pool_and_origin(4, 8);
    let (slot, _receiver) = http2().await;
    pool.share(&origin, slot.connection());
    advance(IDLE_MAX + SWEEP_INTERVAL).await;
    assert!(use_once(&pool, &origin).await);
}

#[tokio::test(start_paused = true)]
async fn connection_beyond_the_age_limit_does_not_prevent_sharing_a_new_one() {
    let (pool, origin) = pool_and_origin(4, 8);
    let ((old, _old_receiver), _) = (http2().await, advance(AGE_MAX).await);
    let (new, _new_receiver) = http2().await;
    pool.share(&origin, old.connection());
    pool.share(&origin, new.connection());
    assert!(use_once(&pool, &origin).await);
}

#[tokio::test(start_paused = true)]
async fn second_shared_connection_is_pooled_only_when_the_first_is_full() {
    let (pool, origin) = pool_and_origin(4, 8);
    let [(first, _a), (early, _b), (late, _c)] = [http2().await, http2().await, http2().await];
    pool.share(&origin, first.connection());
    pool.share(&origin, early.connection());
    assert_eq!(origin.pooled().count(), 1);
    let carried = take_all(&pool, &origin).await;
    pool.share(&origin, late.connection());
    assert_eq!(origin.pooled().count(), 2);
    assert_eq!(
        take_all(&pool, &origin).await.len(),
        carried.len(),
        "one slot belongs to the request that opened the connection"
    );
}

#[tokio::test(start_paused = true)]
async fn connections_beyond_the_kept_number_are_closed_sooner_and_the_least_recently_used_first() {
    let (pool, origin) = pool_and_origin(1, 8);
    let [(first, first_receiver), (second, second_receiver)] = [http1().await, http1().await];
    let (shared, shared_receiver) = http2().await;
    let started_at = now();
    pool.put(&origin, first);
    advance(A_SECOND).await;
    pool.share(&origin, shared.connection());
    shared.complete();
    advance(A_SECOND).await;
    pool.put(&origin, second);
    let closed_after = async |receiver, limit: Duration, used_after: Duration| {
        let open = closed_at(receiver).await - started_at - used_after;
        assert!((limit..=limit + SWEEP_INTERVAL).contains(&open), "{open:?}");
    };
    closed_after(first_receiver, EXCESS_IDLE_MAX, Duration::ZERO).await;
    closed_after(shared_receiver, EXCESS_IDLE_MAX, A_SECOND).await;
    assert_eq!(origin.pooled().count(), 1);
    closed_after(second_receiver, IDLE_MAX, 2 * A_SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn total_limit_covers_both_kinds() {
    let (pool, here) = pool_and_origin(4, 1);
    let elsewhere = pool.connections_to(&another_origin());
    let ((shared, _a), (alone, _b)) = (http2().await, http1().await);
    pool.put(&here, alone);
    pool.share(&elsewhere, shared.connection());
    let counts = [&here, &elsewhere].map(|origin| origin.pooled().count());
    assert_eq!(counts, [0, 1]);
}

#[tokio::test(start_paused = true)]
async fn full_pool_closes_a_part_of_its_connections_and_the_longest_idle_first() {
    let (pool, here) = pool_and_origin(4, 16);
    let elsewhere = pool.connections_to(&another_origin());
    let mut receivers = Vec::new();
    for number in 0..17 {
        let (connection, receiver) = http1().await;
        pool.put(if number % 2 == 0 { &here } else { &elsewhere }, connection);
        receivers.push(receiver);
        advance(Duration::from_millis(1)).await;
    }
    let counts = [&here, &elsewhere].map(|origin| origin.pooled().count());
    assert_eq!(counts, [8, 7], "two connections were closed");
    let closed = receivers.drain(..2).map(closed_at);
    let started_at = now();
    assert_eq!(futures_util::future::join_all(closed).await, [started_at; 2], "they are the oldest two");
}

#[tokio::test(start_paused = true)]
async fn connection_with_a_cancelled_request_takes_no_further_requests() {
    let (pool, origin) = pool_and_origin(4, 8);
    let (slot, _receiver) = http2().await;
    pool.share(&origin, slot.connection());
    let (cancelled, in_flight) = (pool.take(&origin).await, pool.take(&origin).await);
    assert!(cancelled.is_some() && in_flight.is_some());
    drop(cancelled);
    assert!(pool.take(&origin).await.is_none());
    let (new, _new_receiver) = http2().await;
    pool.share(&origin, new.connection());
    assert_eq!(origin.pooled().count(), 1, "the old connection was removed");
    assert!(use_once(&pool, &origin).await);
}

#[tokio::test(start_paused = true)]
async fn receiver_keeps_all_its_connections_while_they_are_used_and_gives_them_up_when_they_are_not() {
    let (pool, origin) = pool_and_origin(1, 8);
    let connections = [http1().await, http1().await, http1().await];
    let _receivers = connections.map(|(connection, receiver)| {
        pool.put(&origin, connection);
        receiver
    });
    for _ in 0..10 {
        advance(EXCESS_IDLE_MAX / 2).await;
        let in_use = take_all(&pool, &origin).await;
        assert_eq!(in_use.len(), 3, "the next requests may need them");
        for connection in in_use {
            let Connection::Http1(connection) = connection else { unreachable!("all are HTTP/1.1") };
            pool.put(&origin, connection);
        }
    }
    // One request at a time uses one connection.
    for _ in 0..10 {
        advance(EXCESS_IDLE_MAX / 2).await;
        assert!(use_once(&pool, &origin).await);
    }
    assert_eq!(origin.pooled().count(), 1);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_kept_about_an_origin_without_destinations_and_connections() {
    let (pool, origin) = pool_and_origin(1, 8);
    let (connection, _receiver) = http1().await;
    pool.put(&origin, connection);
    drop(origin);
    advance(IDLE_MAX - A_SECOND).await;
    assert_eq!((pool.origins().len(), pool.count.load(Ordering::Relaxed)), (1, 1));
    advance(A_SECOND + SWEEP_INTERVAL).await;
    assert_eq!((pool.origins().len(), pool.count.load(Ordering::Relaxed)), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn longest_idle_connection_is_closed_first_when_a_socket_is_needed() {
    let (pool, [(older, receiver_http1), (newer, receiver_http2)]) = pool_with_both_kinds().await;
    assert!(pool.close_longest_idle());
    assert_eq!(closed_at(receiver_http1).await, now());
    assert!(!pool.close_longest_idle(), "an HTTP/2 connection closes in its own task");
    closed_at(receiver_http2).await;
    assert_eq!([&older, &newer].map(|origin| origin.pooled().count()), [0, 0]);
}
