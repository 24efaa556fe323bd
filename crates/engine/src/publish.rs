//! The publisher: reads the store's notice log and broadcasts new notices to subscribers in this process.
//!
//! The log is authoritative. Each notice was committed together with the change that it announces, by any worker. A
//! subscriber that lags or reconnects therefore resumes from the store. The publisher reads nothing while it has no
//! subscriber.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use posthaste_store::{NoticeCursor, PublishedNotice, Store, StoreError};
use tokio::sync::{Notify, broadcast};

use crate::backoff::Backoff;
use crate::clock::Clock;

/// Number of notices that a subscriber may lag behind before it gets [`SubscriptionGap::Lagged`].
const BUFFERED_NOTICES: usize = 1_024;
/// Maximum number of notices read by one call.
const PAGE_SIZE: usize = 500;

/// Broadcasts committed notices to the subscribers of this process. Clones share one state.
#[derive(Clone)]
pub struct Publisher {
    store: Arc<dyn Store>,
    subscribers: broadcast::Sender<LogChange>,
    /// The last position of the log that was published, or `None` while there are no subscribers.
    position: Arc<Mutex<Option<NoticeCursor>>>,
    wake: Arc<Notify>,
}

/// A subscriber's position in the notice log. It receives every notice committed after [`cursor`](Self::cursor), once
/// and in order.
pub struct Subscription {
    cursor: NoticeCursor,
    changes: broadcast::Receiver<LogChange>,
}

/// A change of the notice log that the publisher broadcasts.
#[derive(Clone)]
enum LogChange {
    Notice(PublishedNotice),
    /// The log now ends here, before notices that were published.
    Rewound(NoticeCursor),
}

/// Why the next notice does not follow the last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SubscriptionGap {
    /// The subscriber was too slow and missed notices. It has to read the store's log after this cursor.
    #[error("the subscriber lagged and missed notices; resume from the store after {after:?}")]
    Lagged { after: NoticeCursor },
    /// The log ends before notices that were published: the store was restored from a backup, or a failover lost its
    /// latest commits. The subscription continues from the end of the log.
    #[error("the log of notices was rewound to {end:?}; notices may be missing")]
    LogRewound { end: NoticeCursor },
}

impl Publisher {
    /// Creates a publisher without subscribers. It publishes nothing until [`run`](Self::run) is called.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            subscribers: broadcast::Sender::new(BUFFERED_NOTICES),
            position: Arc::default(),
            wake: Arc::new(Notify::new()),
        }
    }

    /// Subscribes from the current end of the log.
    pub async fn subscribe(&self) -> Result<Subscription, StoreError> {
        // Create the receiver before reading the cursor. Notices published in between are at or before the cursor, and
        // `Subscription::next` skips them.
        let changes = self.subscribers.subscribe();
        let cursor = self.store.notices(None, 0).await?.cursor;
        // A concurrent subscriber may have read a later end and have set the position first. Notices up to that
        // position are not published, so this subscription begins there too.
        let published_after = *self.position().get_or_insert(cursor);
        self.wake();
        Ok(Subscription { cursor: cursor.max(published_after), changes })
    }

    /// Makes the publisher read the log now: this process may have committed a notice.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Publishes forever. Reads the log every `poll_interval`, and whenever this process has committed a notice.
    pub async fn run(self, clock: Arc<dyn Clock>, poll_interval: Duration) {
        let mut backoff = Backoff::new();
        loop {
            match self.publish_page().await {
                Ok(has_more) => {
                    backoff.reset();
                    if !has_more {
                        tokio::select! {
                            biased;
                            () = self.wake.notified() => {}
                            () = clock.sleep(poll_interval) => {}
                        }
                    }
                }
                Err(error) => {
                    tracing::warn!(code = error.code(), %error, "notices could not be read; trying again");
                    clock.sleep(backoff.next()).await;
                }
            }
        }
    }

    /// Publishes one page of notices. Returns true if there may be another.
    async fn publish_page(&self) -> Result<bool, StoreError> {
        let Some(cursor) = self.next_position() else { return Ok(false) };
        let page = self.store.notices(Some(cursor), PAGE_SIZE).await?;
        let has_more = page.notices.len() == PAGE_SIZE;
        let mut changes: Vec<_> = Vec::with_capacity(page.notices.len());
        if page.ends_before(cursor) {
            tracing::warn!(
                published = ?cursor, end = ?page.cursor,
                "the log of notices ends before the last published notice, as after a failover that lost commits; \
                 continuing from its end"
            );
            changes.push(LogChange::Rewound(page.cursor));
        }
        changes.extend(page.notices.into_iter().map(LogChange::Notice));
        for change in changes {
            // Fails only if the last subscriber has just unsubscribed.
            let _ = self.subscribers.send(change);
        }
        *self.position() = Some(page.cursor);
        Ok(has_more)
    }

    /// Returns the position to read from. Without subscribers, clears the position and returns `None`.
    fn next_position(&self) -> Option<NoticeCursor> {
        let mut position = self.position();
        if self.subscribers.receiver_count() == 0 {
            *position = None;
        }
        *position
    }

    fn position(&self) -> MutexGuard<'_, Option<NoticeCursor>> {
        self.position.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subscription {
    /// Returns the position of the last notice received, or the position at which the subscription began.
    pub fn cursor(&self) -> NoticeCursor {
        self.cursor
    }

    /// Waits for the next notice, or for the reason why it does not follow the last one.
    pub async fn next(&mut self) -> Result<PublishedNotice, SubscriptionGap> {
        loop {
            match self.changes.recv().await {
                Ok(LogChange::Notice(published)) if published.cursor <= self.cursor => {}
                Ok(LogChange::Notice(published)) => {
                    self.cursor = published.cursor;
                    return Ok(published);
                }
                // A subscription that began after the log was rewound has not seen the notices beyond its end.
                Ok(LogChange::Rewound(end)) if end >= self.cursor => {}
                Ok(LogChange::Rewound(end)) => {
                    self.cursor = end;
                    return Err(SubscriptionGap::LogRewound { end });
                }
                Err(broadcast::error::RecvError::Lagged(_)) => {
                    return Err(SubscriptionGap::Lagged { after: self.cursor });
                }
                // Every publisher has been dropped: no notice will ever come.
                Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            }
        }
    }
}
