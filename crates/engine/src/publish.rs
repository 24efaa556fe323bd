//! Follows the store's log of notices and hands them to whoever follows the topic in this process.
//!
//! The log is the truth: a notice was committed with the change it tells of, by whichever worker, and a follower
//! that falls behind or comes back later reads on from the store. While nobody follows, nothing is read.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use posthaste_store::{NoticeCursor, PublishedNotice, Store, StoreError};
use tokio::sync::{Notify, broadcast};

use crate::backoff::Backoff;
use crate::clock::Clock;

/// Notices that a slow follower may fall behind by before it loses its place.
const BACKLOG: usize = 1_024;
/// Notices read by one call.
const PAGE: usize = 500;

/// Cheap to clone; all clones are one publisher.
#[derive(Clone)]
pub struct Publisher {
    store: Arc<dyn Store>,
    followers: broadcast::Sender<PublishedNotice>,
    /// Where to read on; none while nobody follows.
    read_on: Arc<Mutex<Option<NoticeCursor>>>,
    news: Arc<Notify>,
}

/// A follower's place. Every notice committed after [`cursor`](Self::cursor) comes, once and in order.
pub struct Subscription {
    cursor: NoticeCursor,
    notices: broadcast::Receiver<PublishedNotice>,
}

/// The follower was too slow, and notices were dropped: it resumes from the store after this cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the follower fell behind; resume after {after:?}")]
pub struct FellBehind {
    pub after: NoticeCursor,
}

impl Publisher {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            followers: broadcast::Sender::new(BACKLOG),
            read_on: Arc::default(),
            news: Arc::new(Notify::new()),
        }
    }

    /// Follows from where the log ends now.
    pub async fn subscribe(&self) -> Result<Subscription, StoreError> {
        // The receiver comes before the cursor: what is published in between lies before the cursor, and is skipped.
        let notices = self.followers.subscribe();
        let cursor = self.store.notices(None, 0).await?.cursor;
        // Somebody who came at the same time may have looked later and been first to say where the publisher begins.
        // What lies before that place is not published, so this follower begins there too.
        let published_after = *self.read_on().get_or_insert(cursor);
        self.look();
        Ok(Subscription { cursor: cursor.max(published_after), notices })
    }

    /// There may be something new in the log.
    pub(crate) fn look(&self) {
        self.news.notify_one();
    }

    /// Follows the log for ever, looking every `poll_interval` and whenever this process has settled something.
    pub async fn run(self, clock: Arc<dyn Clock>, poll_interval: Duration) {
        let mut backoff = Backoff::new();
        loop {
            match self.follow().await {
                Ok(more) => {
                    backoff.reset();
                    if !more {
                        tokio::select! {
                            biased;
                            () = self.news.notified() => {}
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

    /// Publishes a page; true when there may be another.
    async fn follow(&self) -> Result<bool, StoreError> {
        let Some(cursor) = self.place() else { return Ok(false) };
        let page = self.store.notices(Some(cursor), PAGE).await?;
        let more = page.notices.len() == PAGE;
        for notice in page.notices {
            // The last follower may just have gone.
            let _ = self.followers.send(notice);
        }
        *self.read_on() = Some(page.cursor);
        Ok(more)
    }

    /// Where to read on; forgotten when nobody follows any more.
    fn place(&self) -> Option<NoticeCursor> {
        let mut read_on = self.read_on();
        if self.followers.receiver_count() == 0 {
            *read_on = None;
        }
        *read_on
    }

    fn read_on(&self) -> MutexGuard<'_, Option<NoticeCursor>> {
        self.read_on.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subscription {
    /// The last notice that came, or where following began.
    pub fn cursor(&self) -> NoticeCursor {
        self.cursor
    }

    pub async fn next(&mut self) -> Result<PublishedNotice, FellBehind> {
        loop {
            match self.notices.recv().await {
                Ok(published) if published.cursor <= self.cursor => {}
                Ok(published) => {
                    self.cursor = published.cursor;
                    return Ok(published);
                }
                Err(broadcast::error::RecvError::Lagged(_)) => return Err(FellBehind { after: self.cursor }),
                // The publisher is gone, and so is everything that could be published.
                Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            }
        }
    }
}
