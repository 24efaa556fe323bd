//! The open connections to one origin.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::AGE_MAX;
use crate::connection::{Connection, Http1Connection, Http2Connection};

/// The pooled connections to one origin. Its destinations hold a reference, so that a request finds its connections
/// without a search.
#[derive(Default)]
pub(crate) struct OriginConnections(Mutex<PooledConnections>);

#[derive(Default)]
pub(super) struct PooledConnections {
    /// Idle HTTP/1.1 connections, the longest idle first.
    idle: VecDeque<IdleConnection>,
    /// HTTP/2 connections: usually one, more when one is full.
    shared: Vec<SharedConnection>,
}

/// An HTTP/1.1 connection that no request uses.
struct IdleConnection {
    idle_since: Instant,
    connection: Box<Http1Connection>,
}

/// An HTTP/2 connection that further requests may share.
struct SharedConnection {
    used_at: Instant,
    connection: Http2Connection,
}

/// A connection that was removed from the pool. Callers drop it after they release the lock, because closing a socket is
/// a system call.
pub(super) enum RemovedConnection {
    Http1 { _connection: Box<Http1Connection> },
    Http2 { _connection: Http2Connection },
}

/// The kinds of pooled connections, in the order in which they are given up when the pool is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ConnectionKind {
    /// An HTTP/1.1 connection, whose socket closes at once.
    Http1,
    /// An HTTP/2 connection without requests, whose socket closes a moment later.
    IdleHttp2,
    /// An HTTP/2 connection with requests. It takes no new ones and closes after the last.
    BusyHttp2,
}

/// How long connections of an origin stay idle before they are closed.
#[derive(Debug, Clone, Copy)]
pub(super) struct IdleLimits {
    /// Number of connections that may be idle for `idle_max`.
    pub(super) kept: usize,
    pub(super) idle_max: Duration,
    /// Idle time of connections beyond that number.
    pub(super) excess_idle_max: Duration,
}

impl OriginConnections {
    pub(super) fn pooled(&self) -> MutexGuard<'_, PooledConnections> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PooledConnections {
    pub(super) fn count(&self) -> usize {
        self.idle.len() + self.shared.len()
    }

    /// Returns a slot on an HTTP/2 connection, or else the most recently used HTTP/1.1 connection, which leaves the pool.
    pub(super) fn take(&mut self, now: Instant) -> Option<Connection> {
        for shared in &mut self.shared {
            if shared.is_young(now)
                && let Some(slot) = shared.connection.reserve_slot()
            {
                shared.used_at = now;
                return Some(Connection::Http2(slot));
            }
        }
        self.idle.pop_back().map(|newest| Connection::Http1(newest.connection))
    }

    pub(super) fn add_idle(&mut self, connection: Box<Http1Connection>, now: Instant) {
        self.idle.push_back(IdleConnection { idle_since: now, connection });
    }

    /// Adds an HTTP/2 connection, unless another one has a free slot. Returns whether it was added.
    pub(super) fn add_shared(&mut self, connection: &Http2Connection, now: Instant) -> bool {
        let is_needed =
            !self.shared.iter().any(|shared| shared.is_young(now) && shared.connection.has_free_slot());
        if is_needed {
            self.shared.push(SharedConnection { used_at: now, connection: connection.clone() });
        }
        is_needed
    }

    /// Removes the HTTP/2 connections that match a predicate.
    fn remove_shared(&mut self, predicate: impl Fn(&SharedConnection) -> bool) -> Vec<RemovedConnection> {
        self.shared.extract_if(.., |shared| predicate(shared)).map(RemovedConnection::from).collect()
    }

    /// Removes an HTTP/2 connection, so that no new request uses it.
    pub(super) fn remove_same(&mut self, connection: &Http2Connection) -> Vec<RemovedConnection> {
        self.remove_shared(|shared| shared.connection.is_same_as(connection))
    }

    /// Removes the HTTP/2 connections that are closed.
    pub(super) fn remove_closed(&mut self) -> Vec<RemovedConnection> {
        self.remove_shared(|shared| !shared.connection.is_open())
    }

    /// Removes the connections that have been idle for too long, and the HTTP/2 connections that are closed.
    pub(super) fn remove_expired(&mut self, limits: IdleLimits, now: Instant) -> Vec<RemovedConnection> {
        let mut removed = self.remove_closed();
        loop {
            let idle_max = if self.count() > limits.kept { limits.excess_idle_max } else { limits.idle_max };
            let Some((kind, idle_since)) = self.longest_idle() else { break };
            if idle_since + idle_max > now {
                break;
            }
            removed.extend(self.remove_oldest(kind));
        }
        removed
    }

    /// Returns the kind of the connection that no request has used for the longest time, and since when.
    fn longest_idle(&self) -> Option<(ConnectionKind, Instant)> {
        let http1 = self.idle.front().map(|idle| (ConnectionKind::Http1, idle.idle_since));
        let idle_http2 = self.shared.iter().filter(|shared| shared.connection.is_idle());
        let http2 = idle_http2.map(|shared| (ConnectionKind::IdleHttp2, shared.used_at));
        http1.into_iter().chain(http2).min_by_key(|(_, since)| *since)
    }

    /// Returns the kind and the last use of every connection.
    pub(super) fn kinds(&self) -> impl Iterator<Item = (ConnectionKind, Instant)> {
        let idle = self.idle.iter().map(|idle| (ConnectionKind::Http1, idle.idle_since));
        idle.chain(self.shared.iter().map(|shared| (shared.kind(), shared.used_at)))
    }

    /// Removes the least recently used connection of a kind.
    pub(super) fn remove_oldest(&mut self, kind: ConnectionKind) -> Option<RemovedConnection> {
        if kind == ConnectionKind::Http1 {
            return self
                .idle
                .pop_front()
                .map(|idle| RemovedConnection::Http1 { _connection: idle.connection });
        }
        let of_kind = self.shared.iter().enumerate().filter(|(_, shared)| shared.kind() == kind);
        let (oldest, _) = of_kind.min_by_key(|(_, shared)| shared.used_at)?;
        Some(self.shared.swap_remove(oldest).into())
    }
}

impl SharedConnection {
    fn is_young(&self, now: Instant) -> bool {
        self.connection.opened_at() + AGE_MAX > now
    }

    fn kind(&self) -> ConnectionKind {
        if self.connection.is_idle() { ConnectionKind::IdleHttp2 } else { ConnectionKind::BusyHttp2 }
    }
}

impl From<SharedConnection> for RemovedConnection {
    fn from(shared: SharedConnection) -> Self {
        Self::Http2 { _connection: shared.connection }
    }
}
