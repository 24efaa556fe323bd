//! Follows the store's log of notices and hands them to whoever listens in this process.
//!
//! The log is the truth: a notice was committed with the change it tells of, by whichever worker, and a listener
//! that falls behind or comes back later reads on from the store.

use std::sync::Arc;
use std::time::Duration;

use posthaste_store::{NoticeCursor, PublishedNotice, Store, StoreError};
use tokio::sync::{Notify, broadcast};

use crate::backoff::Backoff;
use crate::clock::Clock;

/// Notices that a slow listener may fall behind by before it loses its place.
const BACKLOG: usize = 1_024;
/// Notices read by one call.
const PAGE: usize = 500;

/// Cheap to clone; all clones are one publisher.
#[derive(Clone)]
pub struct Publisher {
    listeners: broadcast::Sender<PublishedNotice>,
    news: Arc<Notify>,
}

impl Publisher {
    #[expect(clippy::new_without_default, reason = "a publisher is nothing until it is run")]
    pub fn new() -> Self {
        Self { listeners: broadcast::Sender::new(BACKLOG), news: Arc::new(Notify::new()) }
    }

    /// Notices committed from now on. A listener that lags is told so by the channel and resumes from the store.
    pub fn subscribe(&self) -> broadcast::Receiver<PublishedNotice> {
        self.listeners.subscribe()
    }

    /// There is something new in the log.
    pub(crate) fn look(&self) {
        self.news.notify_one();
    }

    /// Follows the log for ever, looking every `poll_interval` and whenever this process has settled something.
    pub async fn run(self, store: Arc<dyn Store>, clock: Arc<dyn Clock>, poll_interval: Duration) {
        let mut cursor = None;
        let mut backoff = Backoff::new();
        loop {
            match self.follow(&*store, cursor).await {
                Ok(Followed { cursor: reached, more }) => {
                    cursor = Some(reached);
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

    async fn follow(&self, store: &dyn Store, cursor: Option<NoticeCursor>) -> Result<Followed, StoreError> {
        let page = store.notices(cursor, PAGE).await?;
        let more = page.notices.len() == PAGE;
        for notice in page.notices {
            // Nobody listening is no error.
            let _ = self.listeners.send(notice);
        }
        Ok(Followed { cursor: page.cursor, more })
    }
}

struct Followed {
    cursor: NoticeCursor,
    more: bool,
}
