//! The store and the model, and what a sequence has done to both so far.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use posthaste_domain::{DestinationId, EventId, EventKey, Lease, LeaseToken, Outcome, Timestamp};
use posthaste_store::{AttemptView, ClaimRequest, Cursor, EventView, Store, StoreClock as _};
use posthaste_store_conformance::Harness;
use posthaste_store_memory::{ManualClock, MemoryStore};

use crate::difference::Agreed;
use crate::moments::Moments;
use crate::names::Names;
use crate::notices::Log;
use crate::operation::{Destination, Event, Granted, Handle, Nth, Operation, Step};
use crate::tally::Tally;

/// One thing as each of them knows it.
#[derive(Debug, Clone)]
pub(crate) struct Both<T> {
    pub(crate) store: T,
    pub(crate) model: T,
}

/// Differences that are allowed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Allowed {
    /// Attempts may be shown, and settlements known for replays, after retention could have removed them.
    pub(crate) attempts_linger: bool,
}

pub(crate) struct Pair<'a> {
    harness: &'a dyn Harness,
    handles: [Arc<dyn Store>; 2],
    pub(crate) model: MemoryStore,
    clock: Arc<ManualClock>,
    pub(crate) allowed: Allowed,
    pub(crate) names: Names,
    pub(crate) moments: Moments,
    pub(crate) log: Log,
    /// Every event ever enqueued, every claim ever made, every lease ever granted.
    pub(crate) enqueued: Vec<Both<EventId>>,
    pub(crate) claims: Vec<Both<ClaimRequest>>,
    pub(crate) leases: Vec<Both<Lease>>,
    /// Every attempt ever recorded, in the model's terms, and the outcome that each token stands for.
    pub(crate) attempts: BTreeMap<EventKey, Vec<AttemptView>>,
    pub(crate) outcomes: BTreeMap<LeaseToken, Outcome>,
    /// The store's events at the last look, the newest first.
    pub(crate) views: Vec<EventView>,
    /// What single answers have shown of events since then.
    pub(crate) answered: Vec<EventView>,
    /// Where the last page of each listing ended.
    pub(crate) next_dead_letters: Option<Cursor>,
    pub(crate) next_events: Option<Cursor>,
    pub(crate) tally: Tally,
    told: Vec<String>,
}

impl<'a> Pair<'a> {
    /// The harness brings an empty store.
    pub(crate) async fn new(harness: &'a dyn Harness, allowed: Allowed) -> Agreed<Self> {
        let clock = Arc::new(ManualClock::at(Timestamp::from_secs(1_700_000_000)));
        let handles = [harness.store(), harness.second_handle()];
        Ok(Self {
            harness,
            log: Log::start(handles[0].as_ref()).await?,
            handles,
            model: MemoryStore::new(clock.clone(), 1),
            clock,
            allowed,
            names: Names::new(),
            moments: Moments::default(),
            enqueued: Vec::new(),
            claims: Vec::new(),
            leases: Vec::new(),
            attempts: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            views: Vec::new(),
            answered: Vec::new(),
            next_dead_letters: None,
            next_events: None,
            tally: Tally::default(),
            told: Vec::new(),
        })
    }

    pub(crate) async fn step(&mut self, step: &Step) -> Agreed {
        let through = if step.handle == Handle::Second { ", through the second handle" } else { "" };
        self.told.push(format!("{:?}{through}", step.operation));
        let told = self.act(step.handle, &step.operation).await?;
        if let Some(line) = self.told.last_mut().filter(|_| !told.is_empty()) {
            line.push_str("\n     → ");
            line.push_str(&told);
        }
        self.tally.count("operations", 1);
        // What one handle has done, the other sees.
        self.look(step.handle.other()).await
    }

    /// Does it to both, compares the answers, and tells what came of it.
    async fn act(&mut self, handle: Handle, operation: &Operation) -> Agreed<String> {
        match operation {
            Operation::Enqueue(requests) => self.enqueue(handle, requests).await,
            Operation::Claim(claim) => self.claim(handle, claim).await,
            Operation::ClaimAgain { claim, limit } => self.claim_again(handle, *claim, *limit).await,
            Operation::Advance(by) => self.advance(*by).await,
            Operation::Renew { leases, lease } => self.renew(handle, leases, *lease).await,
            Operation::Settle { worker, attempts } => self.settle(handle, *worker, attempts).await,
            Operation::Release { leases } => self.release(handle, leases).await,
            Operation::Requeue { event, actor } => self.requeue(handle, *event, *actor).await,
            Operation::Cancel { event, actor, reason } => self.cancel(handle, *event, *actor, *reason).await,
            Operation::ReportCircuits(reports) => self.report_circuits(handle, reports).await,
            Operation::Maintain { keep, rows_max } => self.maintain(handle, *keep, *rows_max).await,
            Operation::DeadLetters(paged) => self.pages_of_dead_letters(handle, *paged).await,
            Operation::Events { status, destination, paged } => {
                self.pages_of_events(handle, *status, *destination, *paged).await
            }
            Operation::Event(event) => self.examine(handle, &self.event(*event)).await,
            Operation::Destination(destination) => {
                self.look_at_destination(handle, &self.destination(*destination)).await?;
                Ok(String::new())
            }
            Operation::Notices { after, limit } => self.page_of_notices(handle, *after, *limit).await,
        }
    }

    async fn advance(&mut self, by: Duration) -> Agreed<String> {
        self.clock.advance(by);
        self.harness.advance(by).await;
        // A cursor is a moment of the store, and those may have been moved.
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

    /// What each calls a destination; one where no event went yet is as unknown as one where none ever will.
    pub(crate) fn destination(&self, destination: Destination) -> Both<DestinationId> {
        let known = self.model.with_state(|state| {
            let mut destinations = state.destinations.iter();
            destinations.find(|(_, known)| known.url.as_str() == destination.url()).map(|(id, _)| *id)
        });
        let both = known.and_then(|model| {
            let store = *self.names.destinations.store_of(&model)?;
            Some(Both { store, model })
        });
        both.unwrap_or(Both { store: DestinationId(i64::MAX), model: DestinationId(i64::MAX) })
    }

    /// What each calls an event.
    pub(crate) fn event(&self, event: Event) -> Both<EventId> {
        let picked = match event {
            Event::Failed(nth) => self.failed(nth).or_else(|| nth.of(&self.enqueued).cloned()),
            Event::Any(nth) => nth.of(&self.enqueued).cloned(),
            Event::Unknown => None,
        };
        picked.unwrap_or_else(|| {
            let unknown = EventId::new("unknown").expect("visible ASCII without a full stop");
            Both { store: unknown.clone(), model: unknown }
        })
    }

    /// A lease that was granted before.
    pub(crate) fn granted(&self, granted: Granted) -> Option<&Both<Lease>> {
        match granted {
            Granted::Open(nth) => {
                let is_open = |lease: &&Both<Lease>| !self.outcomes.contains_key(&lease.model.token);
                let open: Vec<&Both<Lease>> = self.leases.iter().filter(is_open).collect();
                nth.of(&open).copied().or_else(|| nth.of(&self.leases))
            }
            Granted::Any(nth) => nth.of(&self.leases),
        }
    }

    fn failed(&self, nth: Nth) -> Option<Both<EventId>> {
        let failed: Vec<&EventView> = self.views.iter().filter(|view| view.failure_kind.is_some()).collect();
        let store = nth.of(&failed)?.event_id.clone();
        let model = self.names.events.model_of(&store).ok()?;
        Some(Both { store, model })
    }

    /// The operations so far, with what came of each.
    pub(crate) fn told(&self) -> String {
        let numbered = self.told.iter().enumerate().map(|(index, told)| format!("{:>3}. {told}", index + 1));
        numbered.collect::<Vec<_>>().join("\n")
    }
}
