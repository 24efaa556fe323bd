//! The interface to storage: the [`Store`] trait, which the engine and the operator API call, and its types.
//!
//! - **Durations, not points in time.** Callers pass durations and the store adds them to its own clock. Therefore
//!   workers on hosts with skewed clocks cannot steal each other's leases.
//! - **Batched.** Claims, renewals, settles and releases take many items, and a store groups concurrent enqueues,
//!   because a commit costs more than a row.
//! - **Fenced.** A write that ends or extends a lease names its token. If the event holds another token, the write
//!   changes nothing and reports that.
//! - **Bounded.** Every call returns: an adapter limits how long it waits and then returns [`StoreError::Unavailable`].
//! - **Atomic.** A change of state commits together with its attempt record, audit row, pause and notice.
//!
//! An adapter chooses how to find the rows of a claim. [`ClaimRequest`] defines which events a claim may return.
//! `posthaste-store-conformance` tests every adapter for the same behaviour.
#![forbid(unsafe_code)]

mod action;
mod activity;
mod bulk;
mod claim;
mod clock;
mod destination;
mod enqueue;
mod error;
mod event;
mod expire;
mod health;
mod layer;
mod maintain;
mod notices;
mod overview;
mod page;
mod payload_budget;
mod registry;
mod search;
mod secrets;
mod settle;
mod slots;
pub mod trial;
mod wakeups;

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use posthaste_domain::signature::Secret;
use posthaste_domain::{DestinationId, EventId, WorkerId};

pub use action::{ActionRequest, RecordedAction};
pub use activity::{
    AHEAD_MAX, Activity, ActivityBucket, ActivityCounts, ActivityReport, HISTORY_POINTS_MAX, History,
    HistoryRange, RECEIVERS_REPORTED_MAX, RECEIVERS_SHOWN_FOR, REMOVED_MAX, ReceiverActivity, Resolution,
    WORKER_KEPT_FOR, WORKER_LISTED_FOR, WORKERS_LISTED_MAX, WorkerStatus,
};
pub use bulk::{
    BULK_COUNT_MAX, BulkAction, BulkCandidate, BulkCount, BulkFilter, BulkOperation, BulkOperations,
    ErrorFilter, ExaminedDeadLetter, NewBulkOperation, RunningBulk,
};
pub use claim::{ClaimRequest, ClaimResponse, LeaseRef};
pub use clock::StoreClock;
pub use destination::{
    CircuitReport, DESTINATION_AUDIT_MAX, DestinationAction, DestinationAudit, DestinationDetail,
    DestinationState, DestinationStatus, DestinationView, HELD_COUNT_MAX, LISTED_PENDING_COUNT_MAX,
    OpenCircuit, OpenCircuitReport, OperatorPause, PENDING_COUNT_MAX, PauseRequest, PendingCount,
    ProbeRefusal, ProbeResponse, ReceiverPause, RequestedProbe, ResumedDestination, SYSTEM_ACTOR,
};
pub use enqueue::{EnqueueLease, EnqueueRequest, EnqueueResponse, Idempotency, Receipt};
pub use error::StoreError;
pub use event::{AttemptView, AuditView, EventContent, EventDetail, EventView, ManualAction};
pub use expire::{ExpireRequest, ExpireResponse};
pub use health::StoreHealth;
pub use layer::{LayeredStore, StoreLayer};
pub use maintain::{MaintenanceReport, Retention};
pub use notices::{NoticeCursor, NoticePage, NoticeSubject, PublishedNotice};
pub use overview::Overview;
pub use page::{InvalidPageLimit, Page, PageCursor, PageLimit, PageRequest};
pub use payload_budget::{PayloadBudget, split_held};
pub use registry::{
    Advance, Answer, AnswerKey, AnswerSlot, Answers, AppScope, Application, Applications, AttemptFilter,
    AttemptRecord, AttemptsOf, Created, DELETE_CANCELS_MAX, DestinationKey, DestinationProfile,
    DisabledEndpoint, Endpoint, EndpointMessage, EndpointStats, Endpoints, EventType, EventTypes, IfTaken,
    InvalidKeyGrace, InvalidListLimit, InvalidRange, KeptAnswer, KeyGrace, List, ListFrom, ListLimit,
    ListRequest, MessageContent, MessageDestination, MessageFilter, MessageView, Messages, NewKey,
    NewOperation, NewSecrets, Operation, OperationKind, OperationState, Operations, PastRange, Publication,
    PublishRequest, Reseal, RotateKey,
};
pub use search::{DeadLetterQuery, EventQuery, ExamineLimit, KeySearch};
pub use secrets::{GracePeriod, InvalidGracePeriod, RotateRequest, StoredSecret, VALID_SECRETS_MAX};
pub use settle::{SettleResult, Settlement};
pub use slots::{ClaimSlots, FixedSlots, Pace, PaceSlots, Receiver, ReceiverSlots, SlotBudget};
pub use wakeups::{Waker, Wakeups};

/// A durable store of events, leases, attempts and notices. The module documentation lists what every adapter
/// guarantees.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Stores the events of a request, all or none, durably before it returns.
    ///
    /// The store groups concurrent calls into shared commits and bounds its queue of waiting requests. Dropping the
    /// future withdraws a request that is still queued.
    async fn enqueue(&self, request: EnqueueRequest) -> Result<EnqueueResponse, StoreError>;

    /// Subscribes to wake-ups, which signal that an event may have become due. A wake-up may be spurious or missing, so
    /// callers also poll.
    fn wakeups(&self) -> Wakeups;

    /// Grants leases on due events, and takes over expired leases, within the limits of the request.
    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError>;

    /// Reads the payload of a leased event. Returns none if the lease was lost: the event was settled, cancelled or leased
    /// again. The call may take minutes over a slow link, and delays no call of another kind: an adapter with connections
    /// reserves one for payloads.
    async fn read_payload(&self, lease: LeaseRef) -> Result<Option<Bytes>, StoreError>;

    /// Extends leases so that they expire `lease` from now. Returns the lost leases: their tokens no longer match,
    /// because the events were settled, cancelled or leased again. A renewal must not wait for claims and settles: an
    /// adapter with connections reserves one for renewals.
    async fn renew(&self, leases: &[LeaseRef], lease: Duration) -> Result<Vec<LeaseRef>, StoreError>;

    /// Writes the results of attempts, all that are applied in one commit. Returns one result per settlement, in order.
    /// A repeated settlement changes nothing and returns [`SettleResult::Replayed`]. A settlement whose lease was lost is
    /// recorded in the history of its event as not applied, unless retention or a discard has removed the event. A store
    /// may do that in a second commit, before the call returns.
    async fn settle(&self, worker: &WorkerId, batch: &[Settlement]) -> Result<Vec<SettleResult>, StoreError>;

    /// Ends leases without recording an attempt. Their events stay due, and their attempt counts do not change. Ignores
    /// leases that the caller has lost.
    async fn release(&self, leases: &[LeaseRef]) -> Result<(), StoreError>;

    /// Counts the events by state. All counts come from one snapshot.
    async fn overview(&self) -> Result<Overview, StoreError>;

    /// Lists failed events, most recently changed first. A page examines at most [`DeadLetterQuery::examine`] rows.
    async fn dead_letters(
        &self,
        query: &DeadLetterQuery,
        page: &PageRequest,
    ) -> Result<Page<EventView>, StoreError>;

    /// Lists events of any state, newest first. A page examines at most [`EventQuery::examine`] rows.
    async fn events(&self, query: &EventQuery, page: &PageRequest) -> Result<Page<EventView>, StoreError>;

    /// Returns one event with its attempts and its audit log. Fails with [`StoreError::EventDiscarded`] if an operator
    /// discarded it.
    async fn event(&self, event_id: &EventId) -> Result<EventDetail, StoreError>;

    /// Moves a `failed` event to `pending`, due now, with its attempts reset to 0. [`ActionRequest`] defines what a
    /// repetition returns.
    async fn requeue(&self, event_id: &EventId, request: ActionRequest<'_>) -> Result<EventView, StoreError>;

    /// Moves a `pending` or `failed` event to `failed` with kind `cancelled`, and ends its lease. [`ActionRequest`] defines
    /// what a repetition returns.
    async fn cancel(
        &self,
        event_id: &EventId,
        request: ActionRequest<'_>,
        reason: Option<&str>,
    ) -> Result<EventView, StoreError>;

    /// Removes a `failed` event for good: the event, its attempts, and its message if the message has no other event. Its audit log and its notices stay, and
    /// its id stays taken, as long as [`Retention::keep_for`]. Returns the entry of the audit log.
    async fn discard(
        &self,
        event_id: &EventId,
        request: ActionRequest<'_>,
        reason: Option<&str>,
    ) -> Result<AuditView, StoreError>;

    /// Sends a `delivered` event once more: adds an event with the id of the first one and `-rN`, the same id on the wire, one attempt,
    /// and due now. Returns the new event. Fails with [`StoreError::ContentRemoved`] if the payload is gone. A repetition under the
    /// key of the request returns the event that the first call added.
    async fn replay(&self, event_id: &EventId, request: ActionRequest<'_>) -> Result<EventView, StoreError>;

    /// Returns up to `payload_bytes_max` bytes of an event's payload, after it has recorded durably that the actor looked at it.
    async fn event_content(
        &self,
        event_id: &EventId,
        actor: &str,
        payload_bytes_max: usize,
    ) -> Result<EventContent, StoreError>;

    /// Dead-letters pending events with kind `expired` if they have not ended in time, in one step of a walk over the
    /// pending events. An event under a live lease is left alone: its own result ends it. Two workers may walk at the same
    /// time; each event expires once.
    async fn expire(&self, request: &ExpireRequest) -> Result<ExpireResponse, StoreError>;

    /// Lists destinations by id, ascending: all of them, or those in one state. The cost of a list by state grows neither
    /// with the backlog nor, except for `ok`, with the number of destinations in the state `ok`.
    async fn destinations(
        &self,
        state: Option<DestinationState>,
        page: &PageRequest<DestinationId>,
    ) -> Result<Page<DestinationView, DestinationId>, StoreError>;

    /// Returns one destination with the events that wait for it and the latest actions of operators on it.
    async fn destination(&self, id: DestinationId) -> Result<DestinationDetail, StoreError>;

    /// Returns the status of a destination without counting its events.
    async fn destination_status(&self, id: DestinationId) -> Result<DestinationStatus, StoreError>;

    /// Pauses a destination: claims grant no lease on its events until the pause ends. Leases that are held go on. A later
    /// pause by an operator replaces an earlier one; a pause that the receiver requested stays.
    async fn pause_destination(
        &self,
        id: DestinationId,
        pause: &PauseRequest,
    ) -> Result<DestinationStatus, StoreError>;

    /// Ends the pauses of a destination, by an operator and by the receiver, and its open circuits. Workers learn of the
    /// resume with their next claim, and the store wakes them.
    async fn resume_destination(
        &self,
        id: DestinationId,
        actor: &str,
    ) -> Result<DestinationStatus, StoreError>;

    /// Asks for a probe of a destination whose circuit is open: each worker with an open circuit of it sends one request at once,
    /// and the result decides. Neither circuits nor pauses end. Workers learn of the request with their next claim, and the store
    /// wakes them. Changes nothing if the response has a refusal.
    async fn probe_destination(&self, id: DestinationId, actor: &str) -> Result<ProbeResponse, StoreError>;

    /// Stores the circuits of a worker, so that operators can see them. The last report of each worker on a destination is
    /// valid until it expires. A report on a circuit that opened before the destination was resumed is ignored.
    async fn report_circuits(&self, reports: &[CircuitReport]) -> Result<(), StoreError>;

    /// Lists notices committed after a cursor, in commit order. Without a cursor, and with one beyond the end of the log,
    /// it returns no notices, only the end of the log.
    async fn notices(&self, after: Option<NoticeCursor>, limit: usize) -> Result<NoticePage, StoreError>;

    /// Checks that the store responds, and returns its clock and its schema version.
    async fn health(&self) -> Result<StoreHealth, StoreError>;

    /// Tries the writes of an enqueue, a claim and a settle, durably committed as far as they can be undone. No other call
    /// sees them. An error names the table, right or file that is missing.
    async fn check_writes(&self) -> Result<(), StoreError>;

    /// Returns the size of the store's write-ahead log on this host's disk, also while the store is unhealthy. `None` for
    /// a store that keeps no log here.
    fn wal_bytes(&self) -> Option<u64> {
        None
    }

    /// Stores `first` if the store has no signing secret. Of several concurrent calls, one stores its secret.
    async fn add_first_secret(&self, first: &Secret) -> Result<(), StoreError>;

    /// Returns the valid signing secrets of the instance, newest first. Reads only.
    async fn signing_secrets(&self) -> Result<Vec<StoredSecret>, StoreError>;

    /// Adds a signing secret, which is valid at once. The newest secret before it retires when the grace period ends;
    /// secrets that retire already keep their time. Returns the valid secrets, newest first. Fails with
    /// [`StoreError::TooManySecrets`] if [`VALID_SECRETS_MAX`] are valid. A repetition with the same secret changes
    /// nothing.
    async fn rotate_secret(&self, request: RotateRequest<'_>) -> Result<Vec<StoredSecret>, StoreError>;

    /// Removes rows older than the retention period, expired idempotency keys and answers, retired secrets and keys, and
    /// expired payloads, in one small step. Cancels pending events of deleted endpoints.
    async fn maintain(&self, retention: &Retention) -> Result<MaintenanceReport, StoreError>;

    /// The applications of the registry.
    fn applications(&self) -> &dyn Applications;

    /// The endpoints of the registry, and the keys of destinations.
    fn endpoints(&self) -> &dyn Endpoints;

    /// The event types of the registry.
    fn event_types(&self) -> &dyn EventTypes;

    /// The messages of the registry, with their attempts.
    fn messages(&self) -> &dyn Messages;

    /// The background operations of the registry.
    fn operations(&self) -> &dyn Operations;

    /// The bulk operations on dead letters.
    fn bulk(&self) -> &dyn BulkOperations;

    /// The answers that are kept for repeated requests.
    fn answers(&self) -> &dyn Answers;

    /// The workers, and the history of what they did.
    fn activity(&self) -> &dyn Activity;
}
