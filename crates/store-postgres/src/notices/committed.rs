//! The notices that this process has committed and not yet broadcast.
//!
//! A settle knows what its notices say, so the publisher need not read their events again. The rows of webhook_notices remain
//! the truth: what is missing here, because the process was restarted or the response of a settle was lost, is read from them.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use posthaste_domain::LeaseToken;
use posthaste_store::Settlement;
use tokio::sync::Notify;

use super::broadcast::{NoticeFields, Notifications};

/// Upper bound of the texts in memory. Beyond it they are dropped, and the publisher reads the events.
const BYTES_MAX: usize = 8 * 1024 * 1024;

/// The fields of an event that its notices repeat, beside its id.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct NoticeReferences {
    pub(crate) webhook_id: Option<String>,
    pub(crate) session_id: Option<String>,
    pub(crate) payment_request_id: Option<String>,
}

/// The references of an event, which most events of a URL do not have.
pub(crate) type EventReferences = Option<Box<NoticeReferences>>;

/// A row of webhook_notices that a settle has written.
pub(crate) struct NoticeRow {
    pub(crate) id: i64,
    /// When it was written, as the topic shows it.
    pub(crate) at: String,
    /// Whether there are notices about disabled endpoints in it.
    pub(crate) names_endpoints: bool,
}

/// Notices to broadcast, and the signal that wakes the publisher.
#[derive(Clone, Default)]
pub(crate) struct CommittedNotices(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    signal: Notify,
}

#[derive(Default)]
struct State {
    /// By the id of the row of webhook_notices.
    by_row: BTreeMap<i64, Notifications>,
    bytes: usize,
    /// Whether this process has committed notices whose texts are not in `by_row`.
    has_others: bool,
}

impl CommittedNotices {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Signals that notices have been committed.
    pub(crate) fn notify(&self) {
        self.lock().has_others = true;
        self.0.signal.notify_one();
    }

    /// Adds the notices of a settle: those of the `applied` settlements that ended their events, in the order of the batch.
    /// `references` has those of the leases.
    pub(crate) fn add_settled<'a>(
        &self,
        row: &NoticeRow,
        applied: impl Iterator<Item = &'a Settlement>,
        references: &HashMap<LeaseToken, EventReferences>,
    ) {
        if row.names_endpoints {
            return self.notify();
        }
        let mut notices = Notifications::default();
        for settlement in applied {
            let transition = &*settlement.transition;
            let Some(kind) = transition.notice_kind() else { continue };
            // A lease that this process has forgotten.
            let Some(references) = references.get(&transition.token()) else { return self.notify() };
            let field = |field: fn(&NoticeReferences) -> &Option<String>| {
                references.as_deref().and_then(|references| field(references).as_deref())
            };
            notices.push(&NoticeFields {
                kind,
                at: &row.at,
                attempts: transition.attempt(),
                event_id: Some(transition.event_id().as_str()),
                webhook_id: field(|references| &references.webhook_id),
                session_id: field(|references| &references.session_id),
                payment_request_id: field(|references| &references.payment_request_id),
                endpoint: None,
            });
        }
        let mut state = self.lock();
        state.bytes += notices.len_bytes();
        state.by_row.insert(row.id, notices);
        if state.bytes > BYTES_MAX {
            *state = State { has_others: true, ..State::default() };
        }
        drop(state);
        self.0.signal.notify_one();
    }

    /// Waits until notices are added or signalled.
    pub(super) async fn changed(&self) {
        self.0.signal.notified().await;
    }

    /// Returns the rows whose texts are here, in order, at most `limit`.
    pub(super) fn rows(&self, limit: usize) -> Vec<i64> {
        self.lock().by_row.keys().take(limit).copied().collect()
    }

    /// Returns whether this process has committed notices whose texts are not here, since the last call.
    pub(super) fn take_has_others(&self) -> bool {
        std::mem::take(&mut self.lock().has_others)
    }

    /// Returns the texts of a row.
    pub(super) fn get(&self, row: i64) -> Option<Notifications> {
        self.lock().by_row.get(&row).cloned()
    }

    /// Removes rows that have been published.
    pub(super) fn remove(&self, rows: &[i64]) {
        let mut state = self.lock();
        for row in rows {
            if let Some(notices) = state.by_row.remove(row) {
                state.bytes = state.bytes.saturating_sub(notices.len_bytes());
            }
        }
    }
}
