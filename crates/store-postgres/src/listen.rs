//! Wake-ups from other processes.
//!
//! A connection of its own listens; the notification carries nothing, because the truth is in the tables. Whenever it
//! is made anew, workers look once more, so that nothing that came while nobody listened is waited for. Behind a
//! transaction pooler notifications never arrive: that is found out and said, and polling goes on.

use std::future::poll_fn;
use std::sync::Weak;
use std::time::Duration;

use tokio_postgres::AsyncMessage;

use crate::session::Sql;
use crate::{Shared, pause};

const DUE: &str = "posthaste_due";
const RETRY_FIRST: Duration = Duration::from_millis(250);
const RETRY_MAX: Duration = Duration::from_secs(15);
/// Notifications that come within this of one another are one.
const BURST: Duration = Duration::from_millis(5);
/// How long a notification of our own may take to come back.
const ECHO_WITHIN: Duration = Duration::from_secs(10);

/// Listens for as long as the store is used by anybody.
pub(crate) async fn run(shared: Weak<Shared>) {
    let mut wait = RETRY_FIRST;
    while shared.strong_count() > 0 {
        match listen(&shared).await {
            Listened::Lost => wait = RETRY_FIRST,
            Listened::NotAtAll => wait = (wait * 2).min(RETRY_MAX),
        }
        pause(wait).await;
    }
}

/// Through another connection: a pooler would pass on what comes back while the one that asked is still linked.
async fn ring(shared: &Weak<Shared>) {
    static RING: Sql = Sql { text: "SELECT pg_notify('posthaste_due', 'listening')", types: &[] };
    if let Some(store) = shared.upgrade() {
        // Where it cannot be sent, it will not be heard.
        let _ = store.sessions.operate.with(async |session| session.query(&RING, &[]).await).await;
    }
}

enum Listened {
    /// The connection was there, and is gone.
    Lost,
    NotAtAll,
}

async fn listen(shared: &Weak<Shared>) -> Listened {
    let Some(strong) = shared.upgrade() else { return Listened::Lost };
    let (config, waker) = (strong.config.clone(), strong.waker.clone());
    drop(strong);
    let Some(Ok((client, mut connection))) = config.dial().await else {
        return Listened::NotAtAll;
    };
    // Nothing of the connection moves unless it is polled, so what is asked and what arrives go on side by side.
    let heard = tokio::sync::Notify::new();
    let rung = tokio::sync::Notify::new();
    // The first of a burst wakes at once, the rest together a moment later.
    let ringing = async {
        loop {
            rung.notified().await;
            waker.wake();
            pause(BURST).await;
        }
    };
    let arriving = async {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if matches!(&message, AsyncMessage::Notification(it) if it.channel() == DUE) {
                heard.notify_one();
                rung.notify_one();
            }
        }
    };
    let asking = async {
        if client.batch_execute(&format!("LISTEN {DUE}")).await.is_err() {
            return;
        }
        waker.wake();
        ring(shared).await;
        tokio::select! {
            biased;
            () = heard.notified() => {}
            () = pause(ECHO_WITHIN) => tracing::warn!(
                "no notifications arrive from PostgreSQL, probably because of a transaction pooler; \
                 new events are found by polling"
            ),
        }
        // Kept open until the store is dropped.
        while shared.strong_count() > 0 {
            pause(ECHO_WITHIN).await;
        }
    };
    tokio::select! {
        biased;
        () = arriving => {}
        () = asking => {}
        () = ringing => {}
    }
    Listened::Lost
}
