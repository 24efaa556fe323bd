//! The store port: everything that the engine and the operators need of a store, and nothing else.
//!
//! - **Durations, not moments.** Callers say how long, the store's clock says when. Workers on skewed hosts cannot
//!   steal each other's leases.
//! - **Batched.** What workers and producers call takes many at once, because a commit costs more than a row.
//! - **Fenced.** A write that ends or extends an attempt names its lease token. Under any other token it changes
//!   nothing and says so.
//! - **Answering.** Every call returns: an adapter bounds its waiting and then answers [`StoreError::Unavailable`].
//! - **Atomic.** A change of state commits together with its attempt record, audit row, pause and notice.
//!
//! How a store finds the rows of a claim cheaply is its own business. What a claim may return is not: see
//! [`ClaimRequest`]. `posthaste-store-conformance` holds every adapter to the same behaviour.
#![forbid(unsafe_code)]

mod claim;
mod clock;
mod destination;
mod enqueue;
mod error;
mod event;
mod layer;
mod maintain;
mod notices;
mod overview;
mod page;
mod settle;
mod vitals;
mod wakeups;

use std::time::Duration;

use async_trait::async_trait;
use posthaste_domain::signature::Secret;
use posthaste_domain::{DestinationId, EventId, WorkerId};

pub use claim::{ClaimRequest, Claimed, HeldLease};
pub use clock::StoreClock;
pub use destination::{CircuitReport, CircuitState, DestinationState};
pub use enqueue::{EnqueueRequest, Enqueued, Idempotency, Receipt};
pub use error::StoreError;
pub use event::{AttemptView, AuditView, EventDetail, EventView, ManualAction};
pub use layer::{Layer, Layered};
pub use maintain::{Maintained, Retention};
pub use notices::{NoticeCursor, NoticePage, PublishedNotice};
pub use overview::Overview;
pub use page::{Cursor, EventQuery, InvalidPageLimit, Page, PageLimit, PageRequest};
pub use settle::{Settled, Settlement};
pub use vitals::Vitals;
pub use wakeups::{Waker, Wakeups};

#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Stores events durably before it returns. Each request is all or nothing and answered by itself, in order;
    /// a whole batch fails only when the store does.
    async fn enqueue(
        &self,
        batch: &[EnqueueRequest],
    ) -> Result<Vec<Result<Enqueued, StoreError>>, StoreError>;

    /// A subscription that fires when something may have become due. Spurious wake-ups are allowed, and so is
    /// silence: callers poll as well.
    fn wakeups(&self) -> Wakeups;

    /// Grants leases on due events within the request's limits. Leases that have expired are taken over in the
    /// same step that grants the new ones.
    async fn claim(&self, request: &ClaimRequest) -> Result<Claimed, StoreError>;

    /// Extends leases to `lease` from now and returns those it could not: their tokens are no longer the rows'.
    /// Must not wait behind claims and settles: where there are connections, it has its own.
    async fn renew(&self, held: &[HeldLease], lease: Duration) -> Result<Vec<HeldLease>, StoreError>;

    /// Writes what attempts led to, all of the batch in one commit, and tells in order what became of each.
    /// Replaying a settlement changes nothing and reports [`Settled::Replayed`].
    async fn settle(&self, worker: &WorkerId, batch: &[Settlement]) -> Result<Vec<Settled>, StoreError>;

    /// Gives leases back unused: their events are due as before, their attempts untouched. Lost leases are
    /// passed over.
    async fn release(&self, held: &[HeldLease]) -> Result<(), StoreError>;

    /// Counts at one snapshot.
    async fn overview(&self) -> Result<Overview, StoreError>;

    /// Failed events, the latest change first.
    async fn dead_letters(&self, page: &PageRequest) -> Result<Page<EventView>, StoreError>;

    /// Events of any state, the newest first.
    async fn events(&self, query: &EventQuery, page: &PageRequest) -> Result<Page<EventView>, StoreError>;

    /// One event with its attempts and what operators did to it.
    async fn event(&self, event_id: &EventId) -> Result<EventDetail, StoreError>;

    /// `failed` becomes `pending`, due now, with a fresh count of attempts.
    async fn requeue(&self, event_id: &EventId, actor: &str) -> Result<EventView, StoreError>;

    /// `pending` or `failed` becomes `failed` with kind `cancelled`; a lease on it is gone.
    async fn cancel(
        &self,
        event_id: &EventId,
        actor: &str,
        reason: Option<&str>,
    ) -> Result<EventView, StoreError>;

    /// What is known of a destination's health.
    async fn destination(&self, id: DestinationId) -> Result<DestinationState, StoreError>;

    /// Makes a worker's view of its circuits visible to operators. The last report stands until it expires.
    async fn report_circuits(&self, reports: &[CircuitReport]) -> Result<(), StoreError>;

    /// Notices committed after a cursor, in commit order; without a cursor none, only where the log ends now.
    async fn notices(&self, after: Option<NoticeCursor>, limit: usize) -> Result<NoticePage, StoreError>;

    /// That it is there, its clock, and its schema.
    async fn vitals(&self) -> Result<Vitals, StoreError>;

    /// The instance's signing secrets that are valid, newest first. Where there has never been one, `first` is kept
    /// and is the answer; of several who come first at once, all get the same.
    async fn signing_secrets(&self, first: &Secret) -> Result<Vec<Secret>, StoreError>;

    /// Removes a small step's worth of what retention no longer keeps.
    async fn maintain(&self, retention: &Retention) -> Result<Maintained, StoreError>;
}
