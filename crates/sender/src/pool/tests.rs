//! The pool in time that the tests move. Connections lead into memory, so that no socket has a time of its own.

use super::*;
use tokio::io::{AsyncReadExt as _, DuplexStream};
use url::Host;

use crate::link::Http2Place;
use crate::meter::Meter;
use crate::stream::Stream;

const A_SECOND: Duration = Duration::from_secs(1);

fn origin() -> Arc<Origin> {
    Arc::new(Origin { secure: true, host: Host::Domain("receiver.example".to_owned()), port: 443 })
}

fn in_memory() -> (Stream, DuplexStream) {
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    (Stream::Memory(ours), theirs)
}

async fn http1() -> (Box<Http1>, DuplexStream) {
    let (stream, receiver) = in_memory();
    (Box::new(Http1::open(stream, Meter::new()).await.unwrap()), receiver)
}

async fn http2() -> (Http2Place, DuplexStream) {
    let (stream, receiver) = in_memory();
    (Http2::open(stream, Meter::new()).await.unwrap().first_place(), receiver)
}

/// An idle connection of each kind, each to a receiver of its own.
async fn pool_of_both() -> (Arc<Pool>, [(Arc<Origin>, DuplexStream); 2]) {
    let (older, newer) = (origin(), Arc::new(Origin { port: 8443, ..(*origin()).clone() }));
    let ((http1, receiver_http1), (http2, receiver_http2)) = (http1().await, http2().await);
    let pool = Pool::new(4, 8);
    pool.put(&older, http1);
    pool.share(&newer, http2.link());
    http2.end();
    (pool, [(older, receiver_http1), (newer, receiver_http2)])
}

/// Sends a request, as it were, that is answered at once; false where there is no connection for it.
async fn use_once(pool: &Pool, origin: &Arc<Origin>) -> bool {
    match pool.take(origin).await {
        Some(Link::Http1(link)) => pool.put(origin, link),
        Some(Link::Http2(place)) => place.end(),
        None => return false,
    }
    true
}

/// All the places on the connections that are there.
async fn take_all(pool: &Pool, origin: &Origin) -> Vec<Link> {
    let mut taken = Vec::new();
    while let Some(link) = pool.take(origin).await {
        taken.push(link);
    }
    taken
}

/// Lets time pass, and everything happen that happens in it.
#[expect(clippy::disallowed_methods, reason = "time is paused: this is what moves it")]
async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

/// When the receiver's end of a connection is closed; waiting for it moves the time.
#[expect(clippy::disallowed_methods, reason = "time is paused: a bound for what never happens")]
async fn closed_at(mut receiver: DuplexStream) -> Instant {
    let mut received = Vec::new();
    let reading = tokio::time::timeout(10 * AGE_MAX, receiver.read_to_end(&mut received));
    reading.await.expect("it is never closed").unwrap();
    now()
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_nobody_uses_is_closed() {
    let (pool, both) = pool_of_both().await;
    // Between two sweeps, so that idle time and sweeps do not end together.
    pass(SWEEP_EVERY / 2).await;
    let mut receivers = Vec::new();
    for (origin, receiver) in both {
        assert!(use_once(&pool, &origin).await);
        receivers.push(receiver);
    }
    let used_at = now();
    for receiver in receivers {
        let idle = closed_at(receiver).await - used_at;
        assert!((IDLE_MAX..=IDLE_MAX + SWEEP_EVERY).contains(&idle), "{idle:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_used_now_and_then_stays_until_it_is_old() {
    let (pool, both) = pool_of_both().await;
    let opened_at = now();
    while now() + IDLE_MAX / 2 < opened_at + AGE_MAX {
        for (origin, _) in &both {
            assert!(use_once(&pool, origin).await, "after {:?}", now() - opened_at);
        }
        pass(IDLE_MAX / 2).await;
    }
    pass(opened_at + AGE_MAX - now() - A_SECOND).await;
    for (origin, _) in &both {
        assert!(use_once(&pool, origin).await);
    }
    pass(A_SECOND).await;
    for (origin, _) in &both {
        assert!(!use_once(&pool, origin).await, "a receiver may have moved");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_carries_a_request_is_not_idle_however_long_it_takes() {
    let (pool, origin) = (Pool::new(4, 8), origin());
    let (place, _receiver) = http2().await;
    pool.share(&origin, place.link());
    pass(IDLE_MAX + SWEEP_EVERY).await;
    assert!(use_once(&pool, &origin).await);
}

#[tokio::test(start_paused = true)]
async fn an_old_connection_does_not_keep_a_new_one_out() {
    let (pool, origin) = (Pool::new(4, 8), origin());
    let ((old, _old_receiver), _) = (http2().await, pass(AGE_MAX).await);
    let (new, _new_receiver) = http2().await;
    pool.share(&origin, old.link());
    pool.share(&origin, new.link());
    assert!(use_once(&pool, &origin).await);
}

#[tokio::test(start_paused = true)]
async fn a_shared_connection_is_kept_beside_another_only_where_that_has_no_place_left() {
    let (pool, origin) = (Pool::new(4, 8), origin());
    let [(first, _a), (early, _b), (late, _c)] = [http2().await, http2().await, http2().await];
    pool.share(&origin, first.link());
    pool.share(&origin, early.link());
    assert_eq!(pool.shelves().count_of(&origin), 1);
    let carried = take_all(&pool, &origin).await;
    pool.share(&origin, late.link());
    assert_eq!(pool.shelves().count_of(&origin), 2);
    assert_eq!(take_all(&pool, &origin).await.len(), carried.len(), "one place is that of its opener");
}

#[tokio::test(start_paused = true)]
async fn connections_of_both_kinds_to_one_receiver_are_bounded_together_and_the_stalest_goes_first() {
    let (pool, origin) = (Pool::new(2, 8), origin());
    let [(first, first_receiver), (second, second_receiver)] = [http1().await, http1().await];
    let (shared, shared_receiver) = http2().await;
    let started_at = now();
    let kept = async || {
        pass(A_SECOND).await;
        pool.shelves().count_of(&origin)
    };
    pool.put(&origin, first);
    assert_eq!(kept().await, 1);
    pool.share(&origin, shared.link());
    shared.end();
    assert_eq!(kept().await, 2);
    pool.put(&origin, second);
    assert_eq!(kept().await, 2);
    assert_eq!(closed_at(first_receiver).await, started_at + 3 * A_SECOND);
    let (third, _third_receiver) = http1().await;
    pool.put(&origin, third);
    assert_eq!(kept().await, 2);
    assert_eq!(closed_at(shared_receiver).await, started_at + 4 * A_SECOND);
    drop(second_receiver);
}

#[tokio::test(start_paused = true)]
async fn the_limit_in_all_is_that_of_both_kinds_together() {
    let pool = Pool::new(4, 1);
    let (here, elsewhere) = (origin(), Arc::new(Origin { port: 8443, ..(*origin()).clone() }));
    let ((shared, _a), (alone, _b)) = (http2().await, http1().await);
    pool.put(&here, alone);
    pool.share(&elsewhere, shared.link());
    let counts = [&here, &elsewhere].map(|origin| pool.shelves().count_of(origin));
    assert_eq!(counts, [0, 1]);
}

#[tokio::test(start_paused = true)]
async fn where_one_request_was_given_up_no_other_begins() {
    let (pool, origin) = (Pool::new(4, 8), origin());
    let (place, _receiver) = http2().await;
    pool.share(&origin, place.link());
    let (given_up, waits) = (pool.take(&origin).await, pool.take(&origin).await);
    assert!(given_up.is_some() && waits.is_some());
    drop(given_up);
    assert!(pool.take(&origin).await.is_none());
    let (new, _new_receiver) = http2().await;
    pool.share(&origin, new.link());
    assert_eq!(pool.shelves().count_of(&origin), 1, "and the old one has made room");
    assert!(use_once(&pool, &origin).await);
}
