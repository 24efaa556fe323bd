//! The deliveries of a worker, by destination and host: which are sent, which wait for a place in a window.
//!
//! A worker claims more events of a receiver that answers than its window has places, so that the next request starts
//! when an answer arrives, and not a claim later. Such events wait here in the order in which they were claimed.
//!
//! This module does no I/O. `Q` is what the caller keeps of a delivery that waits.

mod intervals;
mod receivers;
mod reserve;
mod start;
mod stop;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use posthaste_domain::DestinationId;
use posthaste_store::{Pace, PaceSlots, Receiver, ReceiverSlots};

use super::ages::{RequestAges, RequestNumber};
use super::host::HostEntry;
use super::hosts::{HostNumber, Hosts};
use super::left_behind::LeftBehind;
use super::limits::{AvailablePayloads, Limits, PayloadBytes};
use super::pace::PaceTracker;
use super::recent::RecentAnswers;
use super::share::Competition;
use super::window::{Answer, Window};

pub(super) use intervals::AfterInterval;

/// How long a destination or host without deliveries is remembered.
const REMEMBERED_FOR: Duration = Duration::from_secs(600);
/// Destinations without deliveries that are remembered at most.
const REMEMBERED_MAX: usize = 4_096;
/// Destinations that are offered as known to answer at most.
const KNOWN_MAX: usize = 1_000;

/// What the table has to know of a new delivery.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewDelivery<'a> {
    pub(super) destination: DestinationId,
    pub(super) url: &'a str,
    pub(super) host: HostNumber,
    pub(super) is_retry: bool,
    pub(super) payload_bytes: usize,
    /// Whether the payload is not read yet.
    pub(super) is_unread: bool,
}

/// What one delivery uses of the limits.
#[derive(Debug, Clone)]
pub(super) struct Usage {
    pub(super) destination: DestinationId,
    host: HostNumber,
    pace: Pace,
    is_retry: bool,
    /// Whether the destination had not answered when the delivery was claimed.
    is_unproven: bool,
    payload: PayloadBytes,
    /// The number of stops of the destination when the delivery was claimed.
    stops: u64,
    /// None until it is sent.
    request: Option<RequestNumber>,
}

impl Usage {
    /// Records the start of the request.
    fn start(&mut self, ages: &mut RequestAges) {
        self.request = Some(ages.start(self.host, self.pace));
    }
}

/// A delivery that may be sent.
pub(super) struct Started<Q> {
    pub(super) usage: Usage,
    pub(super) delivery: Q,
}

/// All deliveries of a worker that have no answer yet.
pub(super) struct Table<Q> {
    limits: Limits,
    /// Deliveries that wait or are sent.
    total: usize,
    /// Requests in flight, and places that are reserved.
    in_flight: usize,
    ages: RequestAges,
    retries: usize,
    /// Deliveries whose payload is being read. They neither wait nor are sent.
    reading: usize,
    payloads: PayloadBytes,
    by_pace: BTreeMap<Pace, usize>,
    destinations: BTreeMap<DestinationId, DestinationEntry<Q>>,
    /// The remembered destinations by URL.
    by_url: BTreeMap<Arc<str>, DestinationId>,
    hosts: Hosts,
    /// Hosts with deliveries that wait.
    waiting_hosts: BTreeSet<HostNumber>,
    /// The host in `waiting_hosts` that was last visited for all of them in turn.
    last_visited: Option<HostNumber>,
    competition: Competition,
    /// Destinations with results that are not written and that pause the destination, and the number of such results.
    held: BTreeMap<DestinationId, usize>,
    /// Number of deliveries that have ended.
    pub(super) ended_count: u64,
    /// What the last claim could not take.
    pub(super) left_behind: LeftBehind,
    /// Calls that store new events under reserved places.
    pub(super) open_reservations: usize,
    /// No delivery starts any more.
    is_closed: bool,
}

struct DestinationEntry<Q> {
    host: HostNumber,
    window: Window,
    in_flight: usize,
    reading: usize,
    /// How often all deliveries that wait were stopped. Those whose payload was being read are then not sent, either.
    stops: u64,
    waiting: VecDeque<Started<Q>>,
    /// Whether the last request that showed it got a good answer.
    is_known: bool,
    recent: RecentAnswers,
    used_at: Duration,
}

impl<Q> DestinationEntry<Q> {
    fn claimed(&self) -> usize {
        self.in_flight + self.reading + self.waiting.len()
    }

    /// Returns how many deliveries may be claimed for a destination of this host.
    fn claimable(&self, pace: PaceTracker) -> usize {
        self.window.size() * if self.is_known { pace.claims_per_place() } else { 1 }
    }
}

impl<Q> Table<Q> {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            total: 0,
            in_flight: 0,
            ages: RequestAges::default(),
            retries: 0,
            reading: 0,
            payloads: PayloadBytes::default(),
            by_pace: BTreeMap::new(),
            destinations: BTreeMap::new(),
            by_url: BTreeMap::new(),
            hosts: Hosts::default(),
            waiting_hosts: BTreeSet::new(),
            last_visited: None,
            competition: Competition::default(),
            held: BTreeMap::new(),
            ended_count: 0,
            left_behind: LeftBehind::default(),
            open_reservations: 0,
            is_closed: false,
        }
    }

    /// Returns the number of deliveries that wait.
    pub(super) fn waiting(&self) -> usize {
        self.total - self.in_flight - self.reading
    }

    /// Returns the number of deliveries that are sent.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Returns the number of deliveries that wait or are sent.
    pub(super) fn total(&self) -> usize {
        self.total
    }

    /// Returns how many deliveries the next claim may add. If [`is_full`](Self::is_full), they are for hosts that have few.
    pub(super) fn available(&self) -> usize {
        self.limits.claimable_beside(self.total)
    }

    /// Returns whether only hosts that answer and have few deliveries get more. Hosts that have just stopped answering
    /// may hold all others.
    pub(super) fn is_full(&self) -> bool {
        self.total >= self.limits.total
    }

    /// Returns how many more deliveries may be claimed for a destination of a host.
    fn available_at(&self, host: &HostEntry, is_known: bool) -> usize {
        let available = host.available(is_known);
        if !self.is_full() {
            return available;
        }
        let first = if host.answers() { self.limits.first_claims_of_host(self.total) } else { 0 };
        available.min(first.saturating_sub(host.claimed))
    }

    pub(super) fn available_retries(&self) -> usize {
        self.limits.retries.saturating_sub(self.retries)
    }

    pub(super) fn available_payloads(&self) -> AvailablePayloads {
        self.limits.available_payloads(self.payloads)
    }

    pub(super) fn available_by_pace(&self) -> PaceSlots {
        PaceSlots::new(|pace| match pace {
            Pace::Prompt => self.available(),
            _ => self.limits.of_pace(pace).saturating_sub(self.used_from(pace)),
        })
    }

    /// Returns the number of deliveries to hosts of this pace and of every slower one.
    fn used_from(&self, pace: Pace) -> usize {
        self.by_pace.range(pace..).map(|(_, used)| used).sum()
    }

    /// Returns how many events of a receiver may be claimed.
    pub(super) fn slots_of(&self, receiver: Receiver<'_>) -> ReceiverSlots {
        let host = self.hosts.by_name(receiver.host);
        let pace = host.map_or(PaceTracker::New { is_failing: receiver.is_failing }, |host| host.pace);
        let start = self.limits.window_start;
        let destination = self.destinations.get(&receiver.destination);
        let is_known = destination.is_some_and(|destination| destination.is_known);
        let new_host = || HostEntry::new(&self.limits, receiver.is_failing, Duration::ZERO);
        let at_host = match host {
            Some(host) => self.available_at(host, is_known),
            None => self.available_at(&new_host(), is_known),
        };
        let at_destination = destination.map_or(start.min(self.limits.per_destination), |destination| {
            destination.claimable(pace).saturating_sub(destination.claimed())
        });
        let is_held = self.held.contains_key(&receiver.destination);
        let has_moved = destination
            .is_some_and(|entry| entry.claimed() > 0 && self.hosts.number(receiver.host) != Some(entry.host));
        let at_destination = if is_held || has_moved { 0 } else { at_destination };
        ReceiverSlots { destination: at_destination, host: at_host, pace: pace.pace(), is_known }
    }

    /// Returns destinations that answer and have free slots, the longest unused first.
    pub(super) fn known(&self) -> Vec<DestinationId> {
        let has_slots = |entry: &DestinationEntry<Q>| {
            let host = &self.hosts[entry.host];
            entry.claimed() < entry.claimable(host.pace)
                && self.available_at(host, true) > 0
                && !host.pace.is_stalled()
        };
        let known = self.destinations.iter().filter(|(_, entry)| entry.is_known && has_slots(entry));
        let mut known: Vec<_> = known.map(|(id, entry)| (entry.used_at, *id)).collect();
        known.sort_unstable();
        known.into_iter().map(|(_, id)| id).take(KNOWN_MAX).collect()
    }

    /// Counts a claimed delivery whose payload is being read. It takes no place in a window until then.
    pub(super) fn start_reading(&mut self, usage: &Usage) {
        self.mark_if_filled(usage);
        self.entries(usage).0.reading += 1;
        self.reading += 1;
    }

    /// Records that a payload has been read. Returns whether a claim may find more to send now. The caller passes the usage
    /// to [`add`](Self::add), or to [`free`](Self::free).
    pub(super) fn end_reading(&mut self, usage: &mut Usage) -> bool {
        let byte_limit_was_reached = self.limits.is_byte_limit_reached(self.payloads);
        self.entries(usage).0.reading -= 1;
        self.reading -= 1;
        self.payloads.unread -= std::mem::take(&mut usage.payload.unread);
        byte_limit_was_reached && !self.limits.is_byte_limit_reached(self.payloads)
    }

    /// Adds a claimed delivery under its usage. Returns it if it may be sent at once; otherwise it waits.
    pub(super) fn add(&mut self, usage: Usage, delivery: Q) -> Option<Started<Q>> {
        let mut started = Started { usage, delivery };
        self.mark_if_filled(&started.usage);
        let places = self.places();
        let (destination, host) = self.entries(&started.usage);
        let may_start = destination.waiting.is_empty()
            && destination.in_flight < destination.window.size()
            && host.may_start(places.of(host));
        if may_start {
            destination.in_flight += 1;
            host.in_flight += 1;
            self.in_flight += 1;
            started.usage.start(&mut self.ages);
            return Some(started);
        }
        self.add_waiting(started);
        None
    }

    /// Lets a delivery wait for a place.
    fn add_waiting(&mut self, delivery: Started<Q>) {
        let number = delivery.usage.host;
        let (destination, host) = self.entries(&delivery.usage);
        if destination.waiting.is_empty() {
            host.turns.push_back(delivery.usage.destination);
        }
        destination.waiting.push_back(delivery);
        if let Some(host) = self.hosts.get_mut(number)
            && host.answers()
        {
            self.competition.record(&mut host.last_competed);
        }
        self.waiting_hosts.insert(number);
    }

    /// Marks the destination of a claimed delivery as limited if a claim could take no more of it.
    fn mark_if_filled(&mut self, usage: &Usage) {
        let (destination, host) = self.entries(usage);
        if destination.claimed() + 1 >= destination.claimable(host.pace) || host.available(true) == 0 {
            self.left_behind.mark_by_last_claim(usage.destination);
        }
    }

    /// Learns from the answer to a delivery, and ends it. Returns whether a claim may find more to send now, and the
    /// deliveries that should wait no longer: they were claimed for a larger window.
    pub(super) fn end_with_answer(
        &mut self,
        usage: &Usage,
        answer: Answer,
        took: Duration,
        now: Duration,
    ) -> (bool, Vec<Q>) {
        // The answer may enlarge a window that the last claim has filled.
        let was_limiting = self.is_limiting(usage);
        let unsent = self.learn(usage, answer, took, now);
        (self.end(usage) || was_limiting, unsent)
    }

    /// Learns from the answer to a delivery. Returns the deliveries that should wait no longer.
    fn learn(&mut self, usage: &Usage, answer: Answer, took: Duration, now: Duration) -> Vec<Q> {
        let interval = self.ages.interval();
        let (destination, host) = self.entries(usage);
        let is_destination_full = destination.in_flight >= destination.window.size();
        let is_host_full = host.is_full(usage.is_unproven);
        destination.recent.record(answer, took);
        destination.window.record(answer, is_destination_full);
        let of_host = host.judge(answer);
        host.window.record(of_host, is_host_full);
        host.pace.record(of_host, took);
        if !matches!(answer, Answer::Missing | Answer::Unknown) {
            host.record_answered(interval);
        }
        match answer {
            Answer::Good | Answer::Refused => destination.is_known = true,
            Answer::Missing | Answer::Overloaded => destination.is_known = false,
            Answer::Failing | Answer::Unknown => {}
        }
        (destination.used_at, host.used_at) = (now, now);
        if matches!(answer, Answer::Good | Answer::Refused) && host.pace.pace() == Pace::Prompt {
            // It answers a little slower, and has more than would be claimed now. They are sent soon all the same.
            return Vec::new();
        }
        let waiting_max = destination.claimable(host.pace) - destination.window.size();
        self.stop_waiting(usage.destination, waiting_max)
    }

    /// Ends a delivery that was sent. Returns whether a claim may find more to send now.
    pub(super) fn end(&mut self, usage: &Usage) -> bool {
        let was_limiting = self.is_limiting(usage);
        let byte_limit_was_reached = self.limits.is_byte_limit_reached(self.payloads);
        let (destination, host) = self.entries(usage);
        destination.in_flight -= 1;
        host.in_flight -= 1;
        self.in_flight -= 1;
        if let Some(request) = usage.request {
            self.change_pace(self.pace_of(usage), usage.pace);
            self.ages.end(request);
        }
        self.free(usage);
        was_limiting || (byte_limit_was_reached && !self.limits.is_byte_limit_reached(self.payloads))
    }

    /// Ends deliveries that were not sent after all. Returns whether a claim may find more to send now.
    pub(super) fn end_all(&mut self, usages: &[Usage]) -> bool {
        let limiting = usages.iter().filter(|usage| self.end(usage)).count();
        limiting > 0
    }

    /// Returns the pace under which a delivery is counted.
    fn pace_of(&self, usage: &Usage) -> Pace {
        let is_old = usage.request.is_some_and(|request| self.ages.is_old(request));
        if is_old { usage.pace.max(Pace::Slow) } else { usage.pace }
    }

    /// Returns whether one of the limits that apply to a delivery is reached.
    fn is_limiting(&self, usage: &Usage) -> bool {
        let counted_pace = self.pace_of(usage);
        let (destination, host) = (&self.destinations[&usage.destination], &self.hosts[usage.host]);
        self.is_full()
            || self.in_flight >= self.limits.in_flight
            || (usage.is_retry && self.retries >= self.limits.retries)
            || Pace::ALL
                .into_iter()
                .any(|pace| pace <= counted_pace && self.used_from(pace) >= self.limits.of_pace(pace))
            || destination.claimed() >= destination.window.size()
            || host.is_limiting(usage.is_unproven)
    }

    /// Forgets receivers that have not been used for a long time, or beyond a number.
    pub(super) fn forget_unused(&mut self, now: Duration) {
        let mut idle: Vec<(Duration, DestinationId)> = self
            .destinations
            .iter()
            .filter(|(_, entry)| entry.claimed() == 0)
            .map(|(id, entry)| (entry.used_at, *id))
            .collect();
        idle.sort_unstable();
        let beyond = idle.len().saturating_sub(REMEMBERED_MAX);
        for (position, (used_at, id)) in idle.into_iter().enumerate() {
            if position < beyond || used_at + REMEMBERED_FOR <= now {
                self.destinations.remove(&id);
            }
        }
        self.by_url.retain(|_, id| self.destinations.contains_key(id));
        let used: BTreeSet<HostNumber> = self.destinations.values().map(|entry| entry.host).collect();
        self.hosts.retain(|host| used.contains(&host));
    }

    /// Returns the host of this name. A host that is unknown starts as silent if it `is_failing`.
    pub(super) fn host(&mut self, name: &str, is_failing: bool, now: Duration) -> HostNumber {
        let limits = self.limits;
        self.hosts.get_or_insert(name, || HostEntry::new(&limits, is_failing, now))
    }

    /// Counts a delivery in all limits, and remembers its destination and host. The caller passes the usage to
    /// [`add`](Self::add).
    pub(super) fn use_slot(&mut self, event: NewDelivery<'_>, now: Duration) -> Usage {
        let limits = self.limits;
        let by_url = &mut self.by_url;
        let destination = self.destinations.entry(event.destination).or_insert_with(|| {
            by_url.insert(Arc::from(event.url), event.destination);
            DestinationEntry {
                host: event.host,
                window: Window::new(limits.window_start, limits.per_destination),
                in_flight: 0,
                reading: 0,
                stops: 0,
                waiting: VecDeque::new(),
                is_known: false,
                recent: RecentAnswers::default(),
                used_at: now,
            }
        });
        // The URL of an endpoint may have changed. Deliveries of one destination are counted at one host.
        if destination.claimed() == 0 {
            destination.host = event.host;
        }
        let host = destination.host;
        let at_host = self.hosts.get_mut(host).expect("a host is not forgotten while a destination is on it");
        at_host.claimed += 1;
        at_host.used_at = now;
        let pace = at_host.pace.pace();
        destination.used_at = now;
        let is_unproven = !destination.is_known;
        at_host.unproven += usize::from(is_unproven);
        let stops = destination.stops;
        let usage = Usage {
            destination: event.destination,
            host,
            pace,
            is_retry: event.is_retry,
            is_unproven,
            payload: PayloadBytes {
                large: limits.large_bytes_of(event.payload_bytes),
                unread: if event.is_unread { event.payload_bytes } else { 0 },
            },
            stops,
            request: None,
        };
        self.total += 1;
        self.retries += usize::from(usage.is_retry);
        self.payloads.large += usage.payload.large;
        self.payloads.unread += usage.payload.unread;
        *self.by_pace.entry(pace).or_default() += 1;
        usage
    }

    /// Takes a delivery out of all limits.
    pub(super) fn free(&mut self, usage: &Usage) {
        self.total -= 1;
        self.ended_count += 1;
        self.retries -= usize::from(usage.is_retry);
        self.payloads.large -= usage.payload.large;
        self.payloads.unread -= usage.payload.unread;
        *self.by_pace.entry(usage.pace).or_default() -= 1;
        let host = self.entries(usage).1;
        host.claimed -= 1;
        host.unproven -= usize::from(usage.is_unproven);
    }

    /// Returns the entries of a delivery. They stay as long as the delivery uses a slot.
    fn entries(&mut self, usage: &Usage) -> (&mut DestinationEntry<Q>, &mut HostEntry) {
        let destination = self.destinations.get_mut(&usage.destination);
        let host = self.hosts.get_mut(usage.host);
        destination.zip(host).expect("a receiver is not forgotten while it has deliveries")
    }
}

#[cfg(test)]
mod tests;
