//! The deliveries of a worker, by destination and host: which are sent, which wait for a place in a window.
//!
//! A worker claims more events of a receiver that answers than its window has places, so that the next request starts
//! when an answer arrives, and not a claim later. Such events wait here in the order in which they were claimed.
//!
//! This module does no I/O. `Q` is what the caller keeps of a delivery that waits.

mod start;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use posthaste_domain::DestinationId;
use posthaste_store::{Pace, PaceSlots, Receiver, ReceiverSlots};

use super::host::HostEntry;
use super::left_behind::LeftBehind;
use super::limits::{AvailablePayloads, Limits, PayloadBytes};
use super::pace::PaceTracker;
use super::window::{Answer, Window};

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
    pub(super) host: &'a str,
    pub(super) is_retry: bool,
    pub(super) payload_bytes: usize,
    /// Whether the payload is not read yet.
    pub(super) is_unread: bool,
}

/// What one delivery uses of the limits.
#[derive(Debug, Clone)]
pub(super) struct Usage {
    pub(super) destination: DestinationId,
    host: Arc<str>,
    pace: Pace,
    is_retry: bool,
    /// Whether the destination had not answered when the delivery was claimed.
    is_unproven: bool,
    payload: PayloadBytes,
    /// The number of stops of the destination when the delivery was claimed.
    stops: u64,
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
    in_flight: usize,
    retries: usize,
    /// Deliveries whose payload is being read. They neither wait nor are sent.
    reading: usize,
    payloads: PayloadBytes,
    by_pace: BTreeMap<Pace, usize>,
    destinations: BTreeMap<DestinationId, DestinationEntry<Q>>,
    /// The remembered destinations by URL.
    by_url: BTreeMap<Arc<str>, DestinationId>,
    hosts: BTreeMap<Arc<str>, HostEntry>,
    /// Hosts with deliveries that wait.
    waiting_hosts: BTreeSet<Arc<str>>,
    /// The host in `waiting_hosts` that was last visited for all of them in turn.
    last_visited: Option<Arc<str>>,
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
    host: Arc<str>,
    window: Window,
    in_flight: usize,
    reading: usize,
    /// How often all deliveries that wait were stopped. Those whose payload was being read are then not sent, either.
    stops: u64,
    waiting: VecDeque<Started<Q>>,
    /// Whether the last request that showed it got a good answer.
    is_known: bool,
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
            retries: 0,
            reading: 0,
            payloads: PayloadBytes::default(),
            by_pace: BTreeMap::new(),
            destinations: BTreeMap::new(),
            by_url: BTreeMap::new(),
            hosts: BTreeMap::new(),
            waiting_hosts: BTreeSet::new(),
            last_visited: None,
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

    pub(super) fn available(&self) -> usize {
        self.limits.total.saturating_sub(self.total)
    }

    pub(super) fn available_retries(&self) -> usize {
        self.limits.retries.saturating_sub(self.retries)
    }

    pub(super) fn available_payloads(&self) -> AvailablePayloads {
        self.limits.available_payloads(self.payloads)
    }

    pub(super) fn available_by_pace(&self) -> PaceSlots {
        PaceSlots::new(|pace| self.limits.of_pace(pace).saturating_sub(self.used_from(pace)))
    }

    /// Returns the number of deliveries to hosts of this pace and of every slower one.
    fn used_from(&self, pace: Pace) -> usize {
        self.by_pace.range(pace..).map(|(_, used)| used).sum()
    }

    /// Returns how many events of a receiver may be claimed.
    pub(super) fn slots_of(&self, receiver: Receiver<'_>) -> ReceiverSlots {
        let host = self.hosts.get(receiver.host);
        let pace = host.map_or(PaceTracker::New { is_failing: receiver.is_failing }, |host| host.pace);
        let start = self.limits.window_start;
        let destination = self.destinations.get(&receiver.destination);
        let is_known = destination.is_some_and(|destination| destination.is_known);
        let new_host =
            || HostEntry::new(&self.limits, receiver.is_failing, Duration::ZERO).available(is_known);
        let at_host = host.map_or_else(new_host, |host| host.available(is_known));
        let at_destination = destination.map_or(start.min(self.limits.per_destination), |destination| {
            destination.claimable(pace).saturating_sub(destination.claimed())
        });
        let is_held = self.held.contains_key(&receiver.destination);
        let at_destination = if is_held { 0 } else { at_destination };
        ReceiverSlots { destination: at_destination, host: at_host, pace: pace.pace(), is_known }
    }

    /// Returns destinations that answer and have free slots, the longest unused first.
    pub(super) fn known(&self) -> Vec<DestinationId> {
        let has_slots = |entry: &DestinationEntry<Q>| {
            let host = &self.hosts[&entry.host];
            entry.claimed() < entry.claimable(host.pace) && host.available(true) > 0
        };
        let known = self.destinations.iter().filter(|(_, entry)| entry.is_known && has_slots(entry));
        let mut known: Vec<_> = known.map(|(id, entry)| (entry.used_at, *id)).collect();
        known.sort_unstable();
        known.into_iter().map(|(_, id)| id).take(KNOWN_MAX).collect()
    }

    /// Takes places for new small events to these URLs, if all of them can be sent at once and overtake no event that waits
    /// here or in the store. The places count as deliveries that are sent.
    pub(super) fn reserve(
        &mut self,
        urls: &[&str],
        may_send: impl Fn(DestinationId) -> bool,
        now: Duration,
    ) -> Option<Vec<Usage>> {
        let mut usages = Vec::with_capacity(urls.len());
        for url in urls {
            let free = self.free_place(url).filter(|(destination, _)| may_send(*destination));
            let Some((destination, host)) = free else {
                self.end_all(&usages);
                return None;
            };
            let usage = self.use_slot(
                NewDelivery {
                    destination,
                    url,
                    host: &host,
                    is_retry: false,
                    payload_bytes: 0,
                    is_unread: false,
                },
                now,
            );
            let (destination, host) = self.entries(&usage);
            destination.in_flight += 1;
            host.in_flight += 1;
            self.in_flight += 1;
            usages.push(usage);
        }
        self.open_reservations += 1;
        Some(usages)
    }

    /// Returns the destination with this URL and its host, if a new event to it can be sent at once.
    fn free_place(&self, url: &str) -> Option<(DestinationId, Arc<str>)> {
        let id = *self.by_url.get(url)?;
        let destination = self.destinations.get(&id)?;
        let host = self.hosts.get(&destination.host)?;
        let is_served = self.left_behind.has_none_of(id);
        let is_allowed = !self.is_closed && !self.held.contains_key(&id);
        let is_prompt = destination.is_known && host.pace.pace() == Pace::Prompt;
        let has_place = self.total < self.limits.total
            && destination.in_flight < destination.window.size()
            && host.may_start(self.places());
        let is_first = destination.waiting.is_empty() && host.turns.is_empty();
        (is_served && is_allowed && is_prompt && has_place && is_first)
            .then(|| (id, Arc::clone(&destination.host)))
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
        let started = Started { usage, delivery };
        self.mark_if_filled(&started.usage);
        let places = self.places();
        let (destination, host) = self.entries(&started.usage);
        let may_start = destination.waiting.is_empty()
            && destination.in_flight < destination.window.size()
            && host.may_start(places);
        if may_start {
            destination.in_flight += 1;
            host.in_flight += 1;
            self.in_flight += 1;
            return Some(started);
        }
        let host_name = Arc::clone(&started.usage.host);
        if destination.waiting.is_empty() {
            host.turns.push_back(started.usage.destination);
        }
        destination.waiting.push_back(started);
        self.waiting_hosts.insert(host_name);
        None
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
        let (destination, host) = self.entries(usage);
        let is_destination_full = destination.in_flight >= destination.window.size();
        let is_host_full = host.is_full(usage.is_unproven);
        destination.window.record(answer, is_destination_full);
        let of_host = host.judge(answer);
        host.window.record(of_host, is_host_full);
        host.pace.record(of_host, took);
        match answer {
            Answer::Good => destination.is_known = true,
            Answer::Missing | Answer::Overloaded => destination.is_known = false,
            Answer::Failing | Answer::Unknown => {}
        }
        (destination.used_at, host.used_at) = (now, now);
        if answer == Answer::Good && host.pace.pace() == Pace::Prompt {
            // It answers a little slower, and has more than would be claimed now. They are sent soon all the same.
            return Vec::new();
        }
        let waiting_max = destination.claimable(host.pace) - destination.window.size();
        self.stop_waiting(usage.destination, waiting_max)
    }

    /// Lets at most `waiting_max` deliveries of a destination wait, and returns the others, which use no slot any more.
    pub(super) fn stop_waiting(&mut self, destination: DestinationId, waiting_max: usize) -> Vec<Q> {
        let Some(entry) = self.destinations.get_mut(&destination) else { return Vec::new() };
        let kept = entry.waiting.len().min(waiting_max);
        let unsent: Vec<_> = entry.waiting.split_off(kept).into();
        if kept == 0
            && let Some(host) = self.hosts.get_mut(&entry.host)
        {
            host.turns.retain(|turn| *turn != destination);
            if host.turns.is_empty() {
                self.waiting_hosts.remove(&entry.host);
            }
        }
        if !unsent.is_empty() {
            self.left_behind.mark(destination);
        }
        unsent
            .into_iter()
            .map(|started| {
                self.free(&started.usage);
                started.delivery
            })
            .collect()
    }

    /// Ends a delivery that was sent. Returns whether a claim may find more to send now.
    pub(super) fn end(&mut self, usage: &Usage) -> bool {
        let was_limiting = self.is_limiting(usage);
        let byte_limit_was_reached = self.limits.is_byte_limit_reached(self.payloads);
        let (destination, host) = self.entries(usage);
        destination.in_flight -= 1;
        host.in_flight -= 1;
        self.in_flight -= 1;
        self.free(usage);
        was_limiting || (byte_limit_was_reached && !self.limits.is_byte_limit_reached(self.payloads))
    }

    /// Ends deliveries that were not sent after all. Returns whether a claim may find more to send now.
    pub(super) fn end_all(&mut self, usages: &[Usage]) -> bool {
        let limiting = usages.iter().filter(|usage| self.end(usage)).count();
        limiting > 0
    }

    /// Returns whether one of the limits that apply to a delivery is reached.
    fn is_limiting(&self, usage: &Usage) -> bool {
        let (destination, host) = (&self.destinations[&usage.destination], &self.hosts[&usage.host]);
        self.total >= self.limits.total
            || self.in_flight >= self.limits.in_flight
            || (usage.is_retry && self.retries >= self.limits.retries)
            || Pace::ALL
                .into_iter()
                .any(|pace| pace <= usage.pace && self.used_from(pace) >= self.limits.of_pace(pace))
            || destination.claimed() >= destination.window.size()
            || host.is_limiting(usage.is_unproven)
    }

    /// Makes the window of a destination start again, because its circuit has opened. Returns the deliveries that wait for
    /// it, which use no slot any more.
    pub(super) fn restart_window(&mut self, destination: DestinationId) -> Vec<Q> {
        if let Some(entry) = self.destinations.get_mut(&destination) {
            entry.window.restart();
            entry.is_known = false;
        }
        self.stop_all(destination)
    }

    /// Claims nothing for a destination until [`unhold`](Self::unhold): a result that pauses it is not written yet. Returns
    /// the deliveries that wait for it, which use no slot any more.
    pub(super) fn hold(&mut self, destination: DestinationId) -> Vec<Q> {
        *self.held.entry(destination).or_default() += 1;
        self.stop_all(destination)
    }

    /// Lets no delivery of a destination wait, and returns those that did. Those whose payload is being read follow when it
    /// has been read.
    fn stop_all(&mut self, destination: DestinationId) -> Vec<Q> {
        if let Some(entry) = self.destinations.get_mut(&destination) {
            entry.stops += 1;
        }
        self.stop_waiting(destination, 0)
    }

    /// Returns whether a delivery whose payload has been read should not be sent after all.
    pub(super) fn is_stopped(&mut self, usage: &Usage) -> bool {
        self.is_closed || self.entries(usage).0.stops != usage.stops
    }

    /// Ends one [`hold`](Self::hold) of a destination.
    pub(super) fn unhold(&mut self, destination: DestinationId) {
        if let Some(results) = self.held.get_mut(&destination) {
            *results -= 1;
            if *results == 0 {
                self.held.remove(&destination);
            }
        }
    }

    /// Starts no delivery from now on, and returns those that wait. They use no slot any more.
    pub(super) fn close(&mut self) -> Vec<Q> {
        self.is_closed = true;
        let destinations: Vec<DestinationId> = self.destinations.keys().copied().collect();
        destinations.into_iter().flat_map(|destination| self.stop_waiting(destination, 0)).collect()
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
        let used: BTreeSet<Arc<str>> =
            self.destinations.values().map(|entry| Arc::clone(&entry.host)).collect();
        self.hosts.retain(|host, _| used.contains(host));
    }

    /// Counts a delivery in all limits, and remembers its destination and host. The caller passes the usage to
    /// [`add`](Self::add).
    pub(super) fn use_slot(&mut self, event: NewDelivery<'_>, now: Duration) -> Usage {
        let limits = self.limits;
        let origin = event.host;
        let host = match self.hosts.get_key_value(origin) {
            Some((host, _)) => Arc::clone(host),
            None => Arc::from(origin),
        };
        let at_host = self
            .hosts
            .entry(Arc::clone(&host))
            .or_insert_with(|| HostEntry::new(&limits, event.is_retry, now));
        at_host.claimed += 1;
        at_host.used_at = now;
        let pace = at_host.pace.pace();
        let by_url = &mut self.by_url;
        let destination = self.destinations.entry(event.destination).or_insert_with(|| {
            by_url.insert(Arc::from(event.url), event.destination);
            DestinationEntry {
                host: Arc::clone(&host),
                window: Window::new(limits.window_start, limits.per_destination),
                in_flight: 0,
                reading: 0,
                stops: 0,
                waiting: VecDeque::new(),
                is_known: false,
                used_at: now,
            }
        });
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
        let host = self.hosts.get_mut(&usage.host);
        destination.zip(host).expect("a receiver is not forgotten while it has deliveries")
    }
}

#[cfg(test)]
mod tests;
