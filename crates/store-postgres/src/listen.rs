//! Wake-ups from processes without a worker, through LISTEN and NOTIFY. `wake` sends them.
//!
//! A dedicated connection listens. A notification has no payload: workers read the tables. After every new connection
//! the workers are woken once, because notifications may have been missed. A transaction pooler delivers no
//! notifications. The listener detects that and logs a warning, and workers find events by polling.

use std::future::poll_fn;
use std::sync::Weak;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_postgres::AsyncMessage;

use crate::session::Sql;
use crate::{StoreState, sleep};

const RECONNECT_DELAY_MIN: Duration = Duration::from_millis(250);
const RECONNECT_DELAY_MAX: Duration = Duration::from_secs(15);
/// Notifications that arrive within this time after a wake-up cause one more wake-up together.
const COALESCE_FOR: Duration = Duration::from_millis(5);
/// How long the listener waits for its own test notification.
const TEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Listens for notifications until the store is dropped, and reconnects with backoff.
pub(crate) async fn run(store: Weak<StoreState>) {
    let mut delay = RECONNECT_DELAY_MIN;
    while store.strong_count() > 0 {
        match listen(&store).await {
            ListenEnd::Disconnected => delay = RECONNECT_DELAY_MIN,
            ListenEnd::NotConnected => delay = (delay * 2).min(RECONNECT_DELAY_MAX),
        }
        sleep(delay).await;
    }
}

/// Sends a notification to the channel that this process listens on. It comes from a pooled session: sent on the
/// listening connection, it would arrive even through a transaction pooler, and the test would prove nothing.
async fn send_test_notification(store: &Weak<StoreState>) {
    static TEST_NOTIFICATION: Sql =
        Sql { text: "SELECT pg_notify('posthaste_due', 'listening')", types: &[] };
    if let Some(store) = store.upgrade() {
        // A failure to send shows as a missing notification.
        let _ =
            store.sessions.operate.with(async |session| session.query(&TEST_NOTIFICATION, &[]).await).await;
    }
}

/// Why the connection that listens for PostgreSQL notifications ended.
enum ListenEnd {
    /// The connection was lost.
    Disconnected,
    /// No connection could be made.
    NotConnected,
}

/// Connects and wakes workers on each notification until the connection is lost.
async fn listen(store: &Weak<StoreState>) -> ListenEnd {
    let Some(strong) = store.upgrade() else { return ListenEnd::Disconnected };
    let (config, waker) = (strong.config.clone(), strong.waker.clone());
    drop(strong);
    let channel = config.schema.wake_channel();
    let Some(Ok((client, mut connection))) = config.connect().await else {
        return ListenEnd::NotConnected;
    };
    let first_received = Notify::new();
    let received = Notify::new();
    // The first notification of a burst wakes at once; the others wake together once more.
    let wake_workers = async {
        loop {
            received.notified().await;
            waker.wake();
            sleep(COALESCE_FOR).await;
        }
    };
    // The connection makes progress only while it is polled, so it is polled concurrently with the statements below.
    let receive = async {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if matches!(&message, AsyncMessage::Notification(it) if it.channel() == channel) {
                first_received.notify_one();
                received.notify_one();
            }
        }
    };
    let subscribe = async {
        if client.batch_execute(&format!("LISTEN \"{channel}\"")).await.is_err() {
            return;
        }
        waker.wake();
        send_test_notification(store).await;
        tokio::select! {
            biased;
            () = first_received.notified() => {}
            () = sleep(TEST_TIMEOUT) => tracing::warn!(
                "no notifications arrive from PostgreSQL, probably because of a transaction pooler; \
                 new events are found by polling"
            ),
        }
        // Keeps the connection open until the store is dropped.
        while store.strong_count() > 0 {
            sleep(TEST_TIMEOUT).await;
        }
    };
    tokio::select! {
        biased;
        () = receive => {}
        () = subscribe => {}
        () = wake_workers => {}
    }
    ListenEnd::Disconnected
}
