//! A run of one sequence of operations on the store and on the model.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use posthaste_domain::{
    ApplicationId, DestinationId, EventId, EventKey, Lease, LeaseToken, OrgId, Outcome, Timestamp,
};
use posthaste_store::{
    AttemptView, ClaimRequest, EventView, PageCursor, PauseRequest, Store, StoreClock as _,
};
use posthaste_store_conformance::Harness;
use posthaste_store_memory::{ManualClock, MemoryStore};

use crate::claim::SpentThrottles;
use crate::clock_offset::ClockOffset;
use crate::difference::ComparisonResult;
use crate::id_map::IdMaps;
use crate::notices::NoticeLog;
use crate::operation::{
    Destination, DestinationChoice, EventChoice, Handle, LeaseChoice, Operation, RecencyIndex, Step,
};
use crate::registry::PublishedMessage;
use crate::tally::Tally;

/// A value of the store and the corresponding value of the model, such as an event's id in each.
#[derive(Debug, Clone)]
pub(crate) struct Counterparts<T> {
    pub(crate) store: T,
    pub(crate) model: T,
}

/// Differences from the model that the comparison accepts.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct AllowedDifferences {
    /// The store may keep attempts, and recognize replays of their settlements, longer than retention requires.
    pub(crate) late_attempt_removal: bool,
    /// The store may leave events of a limited destination that an earlier claim has read.
    pub(crate) skipped_limits: bool,
}

/// The store and the model during a sequence, with everything that later operations refer to.
pub(crate) struct SequenceRun<'a> {
    harness: &'a dyn Harness,
    handles: [Arc<dyn Store>; 2],
    pub(crate) model: MemoryStore,
    clock: Arc<ManualClock>,
    pub(crate) allowed: AllowedDifferences,
    pub(crate) ids: IdMaps,
    pub(crate) clock_offset: ClockOffset,
    pub(crate) log: NoticeLog,
    /// Every event ever enqueued, every claim ever made, every lease ever granted.
    pub(crate) enqueued: Vec<Counterparts<EventId>>,
    pub(crate) claims: Vec<Counterparts<ClaimRequest>>,
    pub(crate) leases: Vec<Counterparts<Lease>>,
    /// Every application ever created, by its id in the model, and every message ever published.
    pub(crate) applications: Vec<(OrgId, ApplicationId)>,
    pub(crate) published: Vec<PublishedMessage>,
    /// When the model accepted a report of activity.
    pub(crate) reported_at: Vec<Timestamp>,
    pub(crate) throttles: SpentThrottles,
    /// Limited destinations of the model that a claim has read.
    pub(crate) limits_read: BTreeSet<DestinationId>,
    /// Every attempt ever recorded, as the model shows it, and the outcome settled under each token of the model.
    pub(crate) attempts: BTreeMap<EventKey, Vec<AttemptView>>,
    pub(crate) outcomes: BTreeMap<LeaseToken, Outcome>,
    /// The store's events at the last comparison, newest first.
    pub(crate) views: Vec<EventView>,
    /// Events that single calls have returned since then.
    pub(crate) returned_views: Vec<EventView>,
    /// Where the last page of each listing ended.
    pub(crate) next_dead_letters: Option<PageCursor>,
    pub(crate) next_events: Option<PageCursor>,
    pub(crate) tally: Tally,
    /// One entry per operation, with its result.
    transcript: Vec<String>,
}

/// How long a worker may skip a limited destination that it has read.
const LIMITS_SKIPPED_MAX: Duration = Duration::from_secs(1);

impl<'a> SequenceRun<'a> {
    /// Starts a run on a harness with an empty store.
    pub(crate) async fn new(harness: &'a dyn Harness, allowed: AllowedDifferences) -> ComparisonResult<Self> {
        let clock = Arc::new(ManualClock::at(Timestamp::from_secs(1_700_000_000)));
        let handles = [harness.store(), harness.second_handle()];
        Ok(Self {
            harness,
            log: NoticeLog::start(handles[0].as_ref()).await?,
            handles,
            model: MemoryStore::new(clock.clone(), 1),
            clock,
            allowed,
            ids: IdMaps::new(),
            clock_offset: ClockOffset::default(),
            enqueued: Vec::new(),
            claims: Vec::new(),
            leases: Vec::new(),
            applications: Vec::new(),
            published: Vec::new(),
            reported_at: Vec::new(),
            throttles: SpentThrottles::default(),
            limits_read: BTreeSet::new(),
            attempts: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            views: Vec::new(),
            returned_views: Vec::new(),
            next_dead_letters: None,
            next_events: None,
            tally: Tally::default(),
            transcript: Vec::new(),
        })
    }

    /// Runs one operation on both and compares the results, then compares all visible state.
    pub(crate) async fn step(&mut self, step: &Step) -> ComparisonResult {
        let through = if step.handle == Handle::Second { ", through the second handle" } else { "" };
        self.transcript.push(format!("{:?}{through}", step.operation));
        let result = self.run_operation(step.handle, &step.operation).await?;
        if let Some(line) = self.transcript.last_mut().filter(|_| !result.is_empty()) {
            line.push_str("\n     → ");
            line.push_str(&result);
        }
        self.tally.add("operations", 1);
        // The other handle must see the effects of this one.
        if step.operation.may_change_registry() && self.uses_registry() {
            self.compare_registry(step.handle.other()).await?;
        }
        self.compare_state(step.handle.other()).await
    }

    /// Runs an operation on both and compares the results. Returns the store's result for the transcript.
    async fn run_operation(&mut self, handle: Handle, operation: &Operation) -> ComparisonResult<String> {
        match operation {
            Operation::Enqueue(requests) => self.enqueue(handle, requests).await,
            Operation::Claim(claim) => self.claim(handle, claim).await,
            Operation::RepeatClaim { claim, limit, payload_bytes_max } => {
                self.repeat_claim(handle, *claim, *limit, *payload_bytes_max).await
            }
            Operation::Advance(by) => self.advance(*by).await,
            Operation::Renew { leases, lease } => self.renew(handle, leases, *lease).await,
            Operation::Settle { worker, attempts } => self.settle(handle, *worker, attempts).await,
            Operation::ReadPayload { lease } => self.read_payload(handle, *lease).await,
            Operation::Release { leases } => self.release(handle, leases).await,
            Operation::Requeue { event, actor } => self.requeue(handle, *event, *actor).await,
            Operation::Replay { event, actor } => self.replay(handle, *event, *actor).await,
            Operation::ViewContent { event, actor, bytes_max } => {
                self.view_content(handle, *event, *actor, *bytes_max).await
            }
            Operation::Cancel { event, actor, reason } => self.cancel(handle, *event, *actor, *reason).await,
            Operation::Discard { event, actor, reason } => {
                self.discard(handle, *event, *actor, *reason).await
            }
            Operation::Expire { expire_after, rows_max } => {
                self.expire(handle, *expire_after, *rows_max).await
            }
            Operation::ReportCircuits(reports) => self.report_circuits(handle, reports).await,
            Operation::PauseDestination { destination, actor, duration, reason } => {
                let pause = PauseRequest::new(actor.name(), *duration, *reason);
                self.pause_destination(handle, *destination, &pause).await
            }
            Operation::ResumeDestination { destination, actor } => {
                self.resume_destination(handle, *destination, *actor).await
            }
            Operation::ProbeDestination { destination, actor } => {
                self.probe_destination(handle, *destination, *actor).await
            }
            Operation::Destinations { state, limit } => {
                self.compare_destinations(handle, *state, *limit).await
            }
            Operation::Maintain { keep, keep_dead_letters, rows_max } => {
                self.maintain(handle, *keep, *keep_dead_letters, *rows_max).await
            }
            Operation::DeadLetters { with_cancelled, like, paging } => {
                self.compare_dead_letters(handle, *with_cancelled, like.as_ref(), *paging).await
            }
            Operation::Events { status, destination, like, paging } => {
                self.compare_event_listing(handle, *status, *destination, like.as_ref(), *paging).await
            }
            Operation::Event(event) => self.compare_event(handle, &self.event(*event)).await,
            Operation::Destination(destination) => {
                self.compare_destination(handle, &self.destination(*destination)).await?;
                Ok(String::new())
            }
            Operation::Notices { after, limit } => self.compare_earlier_notices(handle, *after, *limit).await,
            Operation::Registry(operation) => self.run_on_registry(handle, operation).await,
            Operation::Bulk(call) => self.run_on_bulk(handle, call).await,
            Operation::Activity(call) => self.run_on_activity(handle, call).await,
        }
    }

    pub(crate) async fn advance(&mut self, by: Duration) -> ComparisonResult<String> {
        self.clock.advance(by);
        self.harness.advance(by).await;
        if by >= LIMITS_SKIPPED_MAX {
            self.limits_read.clear();
        }
        // A cursor contains a timestamp of the store, and the harness may have changed stored timestamps.
        self.next_dead_letters = None;
        self.next_events = None;
        Ok(String::new())
    }

    pub(crate) fn store(&self, handle: Handle) -> Arc<dyn Store> {
        match handle {
            Handle::First => self.handles[0].clone(),
            Handle::Second => self.handles[1].clone(),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns whether the sequence has called the registry.
    pub(crate) fn uses_registry(&self) -> bool {
        self.model.with_state(|state| {
            let registry = &state.registry;
            !(registry.applications.is_empty() && registry.event_types.is_empty())
        })
    }

    /// Returns the ids of a destination. A destination that is not stored gets an unknown id in both.
    pub(crate) fn destination(&self, choice: DestinationChoice) -> Counterparts<DestinationId> {
        let found = self.model.with_state(|state| {
            let with_url = |destination: Destination| {
                let mut destinations = state.destinations.iter().filter(|(_, it)| it.endpoint.is_none());
                destinations.find(|(_, row)| row.url.as_str() == destination.url()).map(|(id, _)| *id)
            };
            let endpoints = state.destinations.iter().filter(|(_, it)| it.endpoint.is_some());
            let endpoints: Vec<DestinationId> = endpoints.map(|(id, _)| *id).collect();
            match choice {
                DestinationChoice::Url(destination) => with_url(destination),
                DestinationChoice::Endpoint(index) => index.pick(&endpoints).copied().or_else(|| {
                    index.pick(&[Destination::A, Destination::B, Destination::C]).and_then(|it| with_url(*it))
                }),
            }
        });
        let ids = found.and_then(|model| {
            let store = *self.ids.destinations.store_of(&model)?;
            Some(Counterparts { store, model })
        });
        ids.unwrap_or(Counterparts { store: DestinationId(i64::MAX), model: DestinationId(i64::MAX) })
    }

    /// Returns the ids of an event; if there is no such event, an id that does not exist in either store.
    pub(crate) fn event(&self, event: EventChoice) -> Counterparts<EventId> {
        let picked = match event {
            EventChoice::Failed(index) => {
                self.failed_event(index).or_else(|| index.pick(&self.enqueued).cloned())
            }
            EventChoice::Any(index) => index.pick(&self.enqueued).cloned(),
            EventChoice::Unknown => None,
        };
        picked.unwrap_or_else(|| {
            let unknown = EventId::new("unknown").expect("visible ASCII without a full stop");
            Counterparts { store: unknown.clone(), model: unknown }
        })
    }

    /// Returns a lease that was granted before; `None` if there is none.
    pub(crate) fn lease(&self, choice: LeaseChoice) -> Option<&Counterparts<Lease>> {
        match choice {
            LeaseChoice::Unsettled(index) => {
                let is_unsettled =
                    |lease: &&Counterparts<Lease>| !self.outcomes.contains_key(&lease.model.token);
                let unsettled: Vec<&Counterparts<Lease>> = self.leases.iter().filter(is_unsettled).collect();
                index.pick(&unsettled).copied().or_else(|| index.pick(&self.leases))
            }
            LeaseChoice::Any(index) => index.pick(&self.leases),
        }
    }

    fn failed_event(&self, index: RecencyIndex) -> Option<Counterparts<EventId>> {
        let failed: Vec<&EventView> = self.views.iter().filter(|view| view.failure_kind.is_some()).collect();
        let store = index.pick(&failed)?.event_id.clone();
        let model = self.ids.events.model_of(&store).ok()?;
        Some(Counterparts { store, model })
    }

    /// Returns the operations so far with their results, one numbered line each.
    pub(crate) fn transcript(&self) -> String {
        let numbered =
            self.transcript.iter().enumerate().map(|(index, line)| format!("{:>3}. {line}", index + 1));
        numbered.collect::<Vec<_>>().join("\n")
    }
}
