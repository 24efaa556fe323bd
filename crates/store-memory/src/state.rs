//! The state of the store: one map per table.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use posthaste_domain::seal::SealedValue;
use posthaste_domain::{
    ApplicationId, ClaimId, DeliveryStatus, DestinationId, DestinationUrl, EndpointId, EventId, EventKey,
    FailureKind, LeaseToken, MessageId, Notice, NoticeEndpoint, NoticeKind, TerminalState, Timestamp,
    Transition, WorkerId,
};
use posthaste_store::{
    AuditView, DestinationAudit, DestinationKey, DestinationStatus, EventView, Idempotency, NoticeCursor,
    NoticeSubject, OpenCircuit, OperatorPause, PublishedNotice, Receipt, Receiver, ReceiverPause,
    RecordedAction, StoreError, StoredSecret,
};
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::activity::ActivityTables;
use crate::bulk::BulkTable;
use crate::registry::{EndpointRow, MessageKey, Registry};

/// The tables of the store.
pub struct State {
    pub rows: BTreeMap<EventKey, Row>,
    /// Index of `rows` by event id.
    pub keys: BTreeMap<EventId, EventKey>,
    /// Attempts by lease token: at most one per token.
    pub attempts: BTreeMap<LeaseToken, Attempt>,
    pub destinations: BTreeMap<DestinationId, Destination>,
    pub idempotency: BTreeMap<String, IdempotencyEntry>,
    pub audit: Vec<(EventKey, AuditView)>,
    /// Index of the audit rows that have an idempotency key, by that key.
    pub operations: BTreeMap<String, (EventKey, RecordedAction)>,
    /// The keys of discarded events. Their ids stay taken, and their audit log is kept.
    pub discarded: BTreeMap<EventId, EventKey>,
    pub destination_audit: Vec<(DestinationId, DestinationAudit)>,
    /// The log, in which no notice has a subject: a read adds it.
    pub notices: Vec<PublishedNotice>,
    /// The signing secrets, newest first.
    pub secrets: Vec<StoredSecret>,
    pub registry: Registry,
    pub bulk: BulkTable,
    pub activity: ActivityTables,
    /// Grows with every change of a row, so that a test can detect a step that changed nothing.
    pub revision: u64,
    pub(crate) last_key: i64,
    /// An id is never used again, because engines keep circuits by it.
    pub(crate) last_destination: i64,
    pub(crate) last_cursor: NoticeCursor,
    pub(crate) random: StdRng,
}

/// An event together with its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub event_id: EventId,
    pub message_id: MessageId,
    /// The key of its message in the registry. `None` if the event was enqueued to a URL, and has a message of its own.
    pub message_key: Option<MessageKey>,
    pub app: Option<ApplicationId>,
    pub destination_id: DestinationId,
    pub destination_url: DestinationUrl,
    pub event_type: String,
    pub payload: Bytes,
    pub content_type: String,
    pub payment_request_id: Option<String>,
    pub webhook_id: Option<String>,
    pub session_id: Option<String>,
    pub traceparent: Option<String>,
    pub stored_by: Option<String>,
    pub replay_of: Option<EventId>,
    pub status: DeliveryStatus,
    pub failure_kind: Option<FailureKind>,
    pub attempts: u32,
    pub max_attempts: u32,
    pub claims: u32,
    pub lost_leases: u32,
    pub next_attempt_at: Option<Timestamp>,
    pub lease: Option<GrantedLease>,
    pub last_error: Option<String>,
    pub last_attempted_at: Option<Timestamp>,
    pub delivered_at: Option<Timestamp>,
    pub manual_last: Option<AuditView>,
    pub created_at: Timestamp,
    /// When the first attempt is due. It is the time of creation, unless the producer asked for a later one.
    pub deliver_at: Timestamp,
    pub updated_at: Timestamp,
}

/// The current lease of a row. A row has either all of these fields or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantedLease {
    /// The claim that granted the lease.
    pub claim: ClaimId,
    pub token: LeaseToken,
    pub owner: WorkerId,
    pub until: Timestamp,
    /// How long the lease lasts from its grant or its last renewal.
    pub duration: Duration,
}

/// A recorded attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    pub key: EventKey,
    pub transition: Arc<Transition>,
    pub started_at: Timestamp,
    pub recorded_at: Timestamp,
    /// The revision of the state when the attempt was recorded. It orders attempts that have the same timestamp.
    pub revision: u64,
    pub worker: WorkerId,
    /// False if the worker had lost its lease: the attempt changed nothing.
    pub applied: bool,
}

/// A destination: its pauses, its circuits, and since when it has been failing. Ended pauses and expired reports stay
/// until they are replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    pub url: DestinationUrl,
    pub created_at: Timestamp,
    pub operator_pause: Option<OperatorPause>,
    pub receiver_pause: Option<ReceiverPause>,
    /// The last report of each worker.
    pub circuits: BTreeMap<WorkerId, ReportedCircuit>,
    pub failing_since: Option<Timestamp>,
    pub resumed_at: Option<Timestamp>,
    /// When an operator last asked for a probe.
    pub probe_requested_at: Option<Timestamp>,
    /// What the destination has beside its URL, if it is an endpoint.
    pub endpoint: Option<EndpointRow>,
    /// The version of keys, headers and URL. Zero until one of them is set apart from the URL of a new destination.
    pub profile_version: i64,
    pub profile_updated_at: Option<Timestamp>,
    /// The keys of the destination, newest first.
    pub keys: Vec<DestinationKey>,
    pub headers: Option<SealedValue>,
}

/// A worker's report of an open circuit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedCircuit {
    pub circuit: OpenCircuit,
    pub reported_at: Timestamp,
    pub expires_at: Timestamp,
}

impl Destination {
    pub(crate) fn new(url: DestinationUrl, created_at: Timestamp) -> Self {
        Self {
            url,
            created_at,
            operator_pause: None,
            receiver_pause: None,
            circuits: BTreeMap::new(),
            failing_since: None,
            resumed_at: None,
            probe_requested_at: None,
            endpoint: None,
            profile_version: 0,
            profile_updated_at: None,
            keys: Vec::new(),
            headers: None,
        }
    }

    /// Raises the version of keys, headers and URL.
    pub(crate) fn change_profile(&mut self, now: Timestamp) {
        self.profile_version += 1;
        // Workers have read only versions above zero.
        self.profile_updated_at = (self.profile_version > 1).then_some(now);
    }

    /// The status as operators see it.
    pub(crate) fn status(&self, id: DestinationId, now: Timestamp) -> DestinationStatus {
        let lasts = |pause: &OperatorPause| pause.until.is_none_or(|until| until > now);
        let reported = self.circuits.values().filter(|report| report.expires_at > now);
        DestinationStatus {
            id,
            url: self.url.clone(),
            app: self.endpoint.as_ref().map(|endpoint| endpoint.app),
            disabled: self.endpoint.as_ref().and_then(|endpoint| endpoint.disabled),
            operator_pause: self.operator_pause.clone().filter(lasts),
            receiver_pause: self.receiver_pause.filter(|pause| pause.until > now),
            circuit: OpenCircuit::merge(reported.map(|report| report.circuit.clone())),
            failing_since: self.failing_since,
        }
    }
}

/// The response kept for an idempotency key.
pub struct IdempotencyEntry {
    pub(crate) fingerprint: [u8; 32],
    pub(crate) receipts: Vec<Receipt>,
    pub(crate) expires_at: Timestamp,
}

impl IdempotencyEntry {
    pub(crate) fn new(idempotency: &Idempotency, receipts: Vec<Receipt>, now: Timestamp) -> Self {
        Self { fingerprint: idempotency.fingerprint, receipts, expires_at: now.after(idempotency.keep_for) }
    }
}

impl State {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            rows: BTreeMap::new(),
            keys: BTreeMap::new(),
            attempts: BTreeMap::new(),
            destinations: BTreeMap::new(),
            idempotency: BTreeMap::new(),
            audit: Vec::new(),
            operations: BTreeMap::new(),
            discarded: BTreeMap::new(),
            destination_audit: Vec::new(),
            notices: Vec::new(),
            secrets: Vec::new(),
            registry: Registry::default(),
            bulk: BulkTable::default(),
            activity: ActivityTables::default(),
            revision: 0,
            last_key: 0,
            last_destination: 0,
            last_cursor: NoticeCursor::default(),
            random: StdRng::seed_from_u64(seed),
        }
    }

    /// Finds the key of an event.
    pub fn find_key(&self, event_id: &EventId) -> Result<EventKey, StoreError> {
        if let Some(key) = self.keys.get(event_id) {
            return Ok(*key);
        }
        let event_id = event_id.clone();
        match self.discarded.get(&event_id).and_then(|key| self.last_audit(*key)) {
            Some(discard) => Err(StoreError::EventDiscarded { event_id, discard: discard.clone() }),
            None => Err(StoreError::EventNotFound { event_id }),
        }
    }

    /// Returns the first id of an extra event that no event has or had.
    pub(crate) fn free_run(&self, first: &EventId) -> EventId {
        let is_taken = |id: &EventId| self.keys.contains_key(id) || self.discarded.contains_key(id);
        let mut candidates = (1..).map(|run| first.with_run(run));
        candidates.find(|id| !is_taken(id)).expect("there are more numbers than events")
    }

    fn last_audit(&self, key: EventKey) -> Option<&AuditView> {
        self.audit.iter().rfind(|(audited, _)| *audited == key).map(|(_, audit)| audit)
    }

    /// Adds an event and returns its key.
    pub(crate) fn add_row(&mut self, row: Row) -> EventKey {
        self.last_key += 1;
        self.revision += 1;
        let key = EventKey(self.last_key);
        self.keys.insert(row.event_id.clone(), key);
        self.rows.insert(key, row);
        key
    }

    /// Adds a destination and returns its id.
    pub(crate) fn add_destination(&mut self, destination: Destination) -> DestinationId {
        self.last_destination += 1;
        let id = DestinationId(self.last_destination);
        self.destinations.insert(id, destination);
        id
    }

    /// Removes an event and its attempts.
    pub(crate) fn remove_event(&mut self, key: EventKey) {
        if let Some(row) = self.rows.remove(&key) {
            self.keys.remove(&row.event_id);
            self.attempts.retain(|_, attempt| attempt.key != key);
            self.revision += 1;
        }
    }

    /// Returns a row to change, and counts a revision. All changes of existing rows go through this method.
    pub fn row_mut(&mut self, key: EventKey) -> Option<&mut Row> {
        self.revision += 1;
        self.rows.get_mut(&key)
    }

    /// Returns the row if it holds this lease token. This is the fence against writes under lost leases.
    pub(crate) fn find_leased(&mut self, key: EventKey, token: LeaseToken) -> Option<&mut Row> {
        let holds_token = self.rows.get(&key)?.lease.as_ref()?.token == token;
        if holds_token { self.row_mut(key) } else { None }
    }

    /// Appends a notice about a row that has just reached a terminal state, or whose result has disabled its endpoint.
    pub fn publish(&mut self, key: EventKey, kind: NoticeKind, now: Timestamp) {
        let Some(row) = self.rows.get(&key) else { return };
        let notice = Notice {
            kind,
            event_id: row.event_id.clone(),
            webhook_id: row.webhook_id.clone(),
            session_id: row.session_id.clone(),
            payment_request_id: row.payment_request_id.clone(),
            attempts: row.attempts,
            at: now,
            endpoint: kind.disable_reason().and_then(|_| self.notice_endpoint(row)),
        };
        self.last_cursor.minor += 1;
        self.notices.push(PublishedNotice { cursor: self.last_cursor, notice, subject: None });
        self.revision += 1;
    }

    /// Returns what an event is now, for its notices. `None` if the event was discarded.
    pub fn notice_subject(&self, event_id: &EventId) -> Option<NoticeSubject> {
        let row = self.rows.get(&self.find_key(event_id).ok()?)?;
        Some(NoticeSubject {
            event_type: row.event_type.clone(),
            destination_url: row.destination_url.clone(),
        })
    }

    /// Returns the endpoint of an event for a notice. `None` if the event was enqueued to a URL.
    fn notice_endpoint(&self, row: &Row) -> Option<NoticeEndpoint> {
        let endpoint = self.destinations.get(&row.destination_id)?.endpoint.as_ref()?;
        Some(NoticeEndpoint { id: EndpointId(row.destination_id), app: endpoint.app })
    }

    /// Pauses a destination because its receiver requested it. The longest of several pauses applies.
    pub(crate) fn pause(&mut self, destination: DestinationId, now: Timestamp, wait: Option<Duration>) {
        if let (Some(wait), Some(destination)) = (wait, self.destinations.get_mut(&destination)) {
            let current = destination.receiver_pause.filter(|pause| pause.until > now);
            let at = current.map_or(now, |pause| pause.at);
            let until = now.after(wait).max(current.map_or(now, |pause| pause.until));
            destination.receiver_pause = Some(ReceiverPause { at, until });
        }
    }

    /// Returns the receiver of an event.
    pub fn receiver<'a>(&self, row: &'a Row) -> Receiver<'a> {
        let destination = self.destinations.get(&row.destination_id);
        Receiver {
            destination: row.destination_id,
            host: row.destination_url.origin(),
            is_failing: destination.is_some_and(|destination| destination.failing_since.is_some()),
        }
    }

    /// Returns true while the destination is paused or disabled.
    pub fn is_paused(&self, id: DestinationId, now: Timestamp) -> bool {
        self.destinations.get(&id).is_some_and(|destination| destination.status(id, now).is_paused())
    }

    /// Returns the payload of an event: its own, or that of its message. Empty if it was expunged.
    pub fn payload(&self, row: &Row) -> Bytes {
        let message = row.message_key.and_then(|key| self.registry.messages.get(&key));
        message.map_or_else(|| row.payload.clone(), |message| message.payload.clone().unwrap_or_default())
    }
}

impl Row {
    /// Returns whether the event has failed, and not because an operator cancelled it.
    pub(crate) fn is_dead_letter(&self) -> bool {
        self.status == DeliveryStatus::Failed && self.failure_kind != Some(FailureKind::Cancelled)
    }

    /// Returns true if the event is pending, due, and has no unexpired lease. A leased event was due when it was leased,
    /// also if the clock has stepped back since.
    pub fn is_ready(&self, now: Timestamp) -> bool {
        self.status == DeliveryStatus::Pending
            && match &self.lease {
                Some(lease) => lease.is_expired(now),
                None => self.next_attempt_at.is_some_and(|at| at <= now),
            }
    }

    /// Returns when the event was first due or last requeued.
    pub fn enqueued_at(&self) -> Timestamp {
        let requeue = self.manual_last.as_ref().filter(|last| last.action.restarts());
        requeue.map_or(self.deliver_at, |requeue| requeue.at)
    }

    /// The id of the event that a chain of replays began with.
    pub(crate) fn first_event_id(&self) -> &EventId {
        self.replay_of.as_ref().unwrap_or(&self.event_id)
    }

    /// The id that the receiver sees as `webhook-id`.
    pub fn wire_id(&self) -> EventId {
        match self.message_key {
            Some(_) => EventId::from_message(self.message_id),
            None => self.first_event_id().clone(),
        }
    }

    /// Moves the event to a terminal state that no attempt led to.
    pub(crate) fn end_without_attempt(&mut self, state: &TerminalState, now: Timestamp) {
        self.last_error = Some(state.last_error().to_owned());
        self.end(state.status(), Some(state.failure_kind()), now);
    }

    /// Moves the event to a terminal state: it has no lease and is not due.
    pub(crate) fn end(&mut self, status: DeliveryStatus, kind: Option<FailureKind>, now: Timestamp) {
        self.status = status;
        self.failure_kind = kind;
        self.next_attempt_at = None;
        self.lease = None;
        self.updated_at = now;
    }

    /// The event as operators see it.
    pub fn view(&self, key: EventKey) -> EventView {
        EventView {
            key,
            event_id: self.event_id.clone(),
            message_id: self.message_id,
            app: self.app,
            destination_id: self.destination_id,
            destination_url: self.destination_url.clone(),
            event_type: self.event_type.clone(),
            payment_request_id: self.payment_request_id.clone(),
            webhook_id: self.webhook_id.clone(),
            session_id: self.session_id.clone(),
            stored_by: self.stored_by.clone(),
            replay_of: self.replay_of.clone(),
            status: self.status,
            failure_kind: self.failure_kind,
            attempts: self.attempts,
            max_attempts: self.max_attempts,
            claims: self.claims,
            lost_leases: self.lost_leases,
            next_attempt_at: self.next_attempt_at,
            lease_owner: self.lease.as_ref().map(|lease| lease.owner.clone()),
            lease_until: self.lease.as_ref().map(|lease| lease.until),
            last_error: self.last_error.clone(),
            last_attempted_at: self.last_attempted_at,
            delivered_at: self.delivered_at,
            manual_last: self.manual_last.clone(),
            created_at: self.created_at,
            updated_at: self.updated_at,
        }
    }
}

impl GrantedLease {
    /// Returns true once the lease has expired, so that another claim may take it over.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.until <= now
    }
}
