//! The connection pool: open connections that are available to further requests.
//!
//! An HTTP/1.1 connection leaves the pool while a request uses it, most recently used first, and returns when its
//! response has been read. An HTTP/2 connection stays in the pool while it is used. The age limit makes the sender follow
//! a receiver to new addresses within minutes.
//!
//! An origin keeps the connections of all its requests, however many were in flight at once, so it opens no more than
//! that many. The pool is limited in total, and by the time that a connection is idle: a receiver that gets fewer
//! requests than before leaves its oldest connections unused, and they are closed.

mod origin;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::time::Instant;

use crate::connection::{Connection, Http1Connection, Http2Connection};
use crate::deadline::now;
use crate::target::Origin;
use origin::{ConnectionKind, IdleLimits, RemovedConnection};

pub(crate) use origin::OriginConnections;

/// Idle time after which a connection is closed.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// Idle time after which a connection is closed if its origin has more than the configured number.
const EXCESS_IDLE_MAX: Duration = Duration::from_secs(10);
/// Age after which a connection takes no new requests.
const AGE_MAX: Duration = Duration::from_secs(300);
/// Interval between sweeps for expired connections.
const SWEEP_INTERVAL: Duration = Duration::from_secs(2);
/// Part of the pooled connections that is closed when their total limit is reached. The search for the longest idle ones
/// visits all origins, so it frees space for many requests.
const CLOSED_PART: usize = 8;

/// Open connections to all origins.
pub(crate) struct Pool {
    origins: Mutex<HashMap<Arc<Origin>, Arc<OriginConnections>>>,
    /// Number of pooled connections. Changed under the lock of their origin.
    count: AtomicUsize,
    per_origin_kept: usize,
    total_max: usize,
}

impl Pool {
    /// Creates a pool and spawns the task that closes its expired connections. Must be called within a Tokio runtime.
    pub(crate) fn new(per_origin_kept: usize, total_max: usize) -> Arc<Self> {
        let pool = Self { origins: Mutex::default(), count: AtomicUsize::new(0), per_origin_kept, total_max };
        let pool = Arc::new(pool);
        tokio::spawn(sweep(Arc::downgrade(&pool)));
        pool
    }

    /// Returns the connections to an origin. The entry exists as long as it is referred to or has connections.
    pub(crate) fn connections_to(&self, origin: &Arc<Origin>) -> Arc<OriginConnections> {
        Arc::clone(self.origins().entry(Arc::clone(origin)).or_default())
    }

    /// Returns a connection that was open when checked. Its receiver may still close it before the request arrives.
    pub(crate) async fn take(&self, origin: &OriginConnections) -> Option<Connection> {
        let now = now();
        loop {
            let mut connection = self.take_pooled(origin, now)?;
            let is_usable = match &mut connection {
                Connection::Http1(connection) => {
                    connection.opened_at + AGE_MAX > now && connection.is_usable().await
                }
                Connection::Http2(_) => true,
            };
            if is_usable {
                return Some(connection);
            }
        }
    }

    fn take_pooled(&self, origin: &OriginConnections, now: Instant) -> Option<Connection> {
        let mut pooled = origin.pooled();
        let connection = pooled.take(now)?;
        if matches!(connection, Connection::Http1(_)) {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
        Some(connection)
    }

    /// Adds an HTTP/1.1 connection whose response has been read, if it can carry another request.
    pub(crate) fn put(&self, origin: &OriginConnections, mut connection: Box<Http1Connection>) {
        if self.is_disabled() || !connection.is_idle() {
            return;
        }
        let total = {
            let mut pooled = origin.pooled();
            pooled.add_idle(connection, now());
            self.count.fetch_add(1, Ordering::Relaxed) + 1
        };
        self.trim(total);
    }

    /// Adds a new HTTP/2 connection, unless the pool has another one to the same origin with a free slot.
    ///
    /// Attempts that start together may each open a connection. Those that the pool does not need carry only the
    /// request that they were opened for, and then close.
    pub(crate) fn share(&self, origin: &OriginConnections, connection: &Http2Connection) {
        if self.is_disabled() {
            return;
        }
        let (closed, total) = {
            let mut pooled = origin.pooled();
            let closed = pooled.remove_closed();
            let added = usize::from(pooled.add_shared(connection, now()));
            self.count.fetch_sub(closed.len(), Ordering::Relaxed);
            (closed, self.count.fetch_add(added, Ordering::Relaxed) + added)
        };
        drop(closed);
        self.trim(total);
    }

    /// Removes an HTTP/2 connection, so that no new request uses it. Requests in flight may finish.
    pub(crate) fn retire(&self, origin: &OriginConnections, connection: &Http2Connection) {
        let removed = {
            let mut pooled = origin.pooled();
            let removed = pooled.remove_same(connection);
            self.count.fetch_sub(removed.len(), Ordering::Relaxed);
            removed
        };
        drop(removed);
    }

    /// Closes the connections that have been idle for the longest time: an eighth of all, but at least one. Returns whether a
    /// socket was closed. Without an idle HTTP/1.1 connection it retires idle HTTP/2 connections, which close their sockets
    /// a moment later.
    pub(crate) fn close_longest_idle(&self) -> bool {
        let count = (self.count.load(Ordering::Relaxed) / CLOSED_PART).max(1);
        let removed = self.remove_least_recently_used(count, ConnectionKind::IdleHttp2);
        removed.iter().any(|removed| matches!(removed, RemovedConnection::Http1 { .. }))
    }

    /// Makes space if this total exceeds the limit.
    fn trim(&self, total: usize) {
        let Some(excess @ 1..) = total.checked_sub(self.total_max) else { return };
        let count = excess.max(self.total_max / CLOSED_PART);
        drop(self.remove_least_recently_used(count, ConnectionKind::BusyHttp2));
    }

    /// Removes up to this many connections, by kind up to `last_kind` and then by their last use.
    fn remove_least_recently_used(&self, count: usize, last_kind: ConnectionKind) -> Vec<RemovedConnection> {
        let origins: Vec<_> = self.origins().values().cloned().collect();
        let mut by_last_use = Vec::new();
        for (index, origin) in origins.iter().enumerate() {
            let pooled = origin.pooled();
            let kinds = pooled.kinds().filter(|(kind, _)| *kind <= last_kind);
            by_last_use.extend(kinds.map(|(kind, used_at)| (kind, used_at, index)));
        }
        by_last_use.sort_unstable();
        let oldest = by_last_use.into_iter().take(count);
        let removed = oldest.filter_map(|(kind, _, index)| {
            let mut pooled = origins[index].pooled();
            let removed = pooled.remove_oldest(kind)?;
            self.count.fetch_sub(1, Ordering::Relaxed);
            Some(removed)
        });
        removed.collect()
    }

    /// Removes the expired connections, and the entries that no destination refers to and that have no connection.
    fn remove_expired(&self, now: Instant) -> Vec<RemovedConnection> {
        let limits =
            IdleLimits { kept: self.per_origin_kept, idle_max: IDLE_MAX, excess_idle_max: EXCESS_IDLE_MAX };
        let mut removed = Vec::new();
        self.origins().retain(|_, origin| {
            let mut pooled = origin.pooled();
            let expired = pooled.remove_expired(limits, now);
            self.count.fetch_sub(expired.len(), Ordering::Relaxed);
            removed.extend(expired);
            // New references are made under the lock of all entries, or from another reference.
            pooled.count() > 0 || Arc::strong_count(origin) > 1
        });
        removed
    }

    fn is_disabled(&self) -> bool {
        self.per_origin_kept == 0 || self.total_max == 0
    }

    fn origins(&self) -> MutexGuard<'_, HashMap<Arc<Origin>, Arc<OriginConnections>>> {
        self.origins.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes expired connections at intervals, until the pool is dropped.
#[expect(clippy::disallowed_methods, reason = "real sockets grow stale in real time")]
async fn sweep(pool: Weak<Pool>) {
    loop {
        tokio::time::sleep(SWEEP_INTERVAL).await;
        let Some(pool) = pool.upgrade() else { return };
        drop(pool.remove_expired(now()));
    }
}
