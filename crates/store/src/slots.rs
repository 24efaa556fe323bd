//! The slots of a claim: how many events a worker can send at once, in total and to each receiver.
//!
//! A worker limits its requests in flight by destination and by host, because many destinations may share a host. It
//! learns the limits from the receivers' answers. It also limits the requests to receivers that answer slowly or not at
//! all, so that however many they are, slots remain for those that answer at once.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use posthaste_domain::DestinationId;

use crate::claim::ClaimRequest;

/// How fast a host answers. A slower pace may use fewer slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pace {
    /// It answers at once.
    Prompt,
    /// It answers within a second or so.
    Steady,
    /// It needs longer, or this worker has had no answer of it yet.
    Slow,
    /// Its last request got no answer.
    Silent,
}

impl Pace {
    pub const ALL: [Self; 4] = [Self::Prompt, Self::Steady, Self::Slow, Self::Silent];
}

/// Free slots by pace: for hosts of this pace and of every slower one together. So a slow host uses a slot of its own pace
/// and of every faster one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PaceSlots([usize; Pace::ALL.len()]);

impl PaceSlots {
    /// No pace is limited.
    pub const UNLIMITED: Self = Self([usize::MAX; Pace::ALL.len()]);

    /// Returns what `slots` returns for each pace.
    pub fn new(slots: impl FnMut(Pace) -> usize) -> Self {
        Self(Pace::ALL.map(slots))
    }

    /// Returns how many requests to hosts of this pace may be added.
    pub fn available(&self, pace: Pace) -> usize {
        let faster = Pace::ALL.into_iter().zip(self.0).filter(|(limited, _)| *limited <= pace);
        faster.map(|(_, slots)| slots).min().unwrap_or(usize::MAX)
    }

    /// Uses slots for requests to hosts of this pace.
    pub fn take(&mut self, pace: Pace, count: usize) {
        for (limited, slots) in Pace::ALL.into_iter().zip(&mut self.0) {
            if limited <= pace {
                *slots = slots.saturating_sub(count);
            }
        }
    }
}

/// The receiver of an event, as the store knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receiver<'a> {
    pub destination: DestinationId,
    /// Scheme, name and port: [`DestinationUrl::origin`](posthaste_domain::DestinationUrl::origin).
    pub host: &'a str,
    /// Whether the last attempt of any worker that showed it found the destination unhealthy. It may be out of date.
    pub is_failing: bool,
}

/// The slots that a worker has for a receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiverSlots {
    /// Free slots of the destination.
    pub destination: usize,
    /// Free slots of its host. A host has slots of their own for its destinations that have not answered.
    pub host: usize,
    pub pace: Pace,
    /// Whether the destination has answered: it shares the slots of its host with the other ones that have.
    pub is_known: bool,
}

/// What a worker can send at once. The store asks it only for destinations with due events, so that a claim costs no more
/// with many receivers.
pub trait ClaimSlots: fmt::Debug + Send + Sync {
    /// Returns the free slots of a receiver. Zero excludes one that is saturated or has an open circuit.
    fn of(&self, receiver: Receiver<'_>) -> ReceiverSlots;

    /// Returns destinations that have answered the worker lately and have free slots. A claim grants their events first, up
    /// to [`SlotBudget::known_share`] of its leases, so that a crowd of new destinations does not delay them.
    fn known(&self) -> Vec<DestinationId>;
}

/// Slots with fixed numbers, for callers that are not a worker.
#[derive(Debug, Clone)]
pub struct FixedSlots {
    /// Slots of every destination that is not in `destinations`.
    pub per_destination: usize,
    pub destinations: BTreeMap<DestinationId, usize>,
    /// Slots of every host that is not in `hosts`.
    pub per_host: usize,
    pub hosts: BTreeMap<String, usize>,
    /// The pace of hosts that are not prompt.
    pub paces: BTreeMap<String, Pace>,
    pub known: Vec<DestinationId>,
}

impl FixedSlots {
    /// Returns slots that limit each destination only.
    pub fn per_destination(slots: usize) -> Self {
        Self {
            per_destination: slots,
            destinations: BTreeMap::new(),
            per_host: usize::MAX,
            hosts: BTreeMap::new(),
            paces: BTreeMap::new(),
            known: Vec::new(),
        }
    }

    /// Sets the slots of one destination.
    #[must_use]
    pub fn with(mut self, destination: DestinationId, slots: usize) -> Self {
        self.destinations.insert(destination, slots);
        self
    }

    /// Sets the slots of each host.
    #[must_use]
    pub fn per_host(self, slots: usize) -> Self {
        Self { per_host: slots, ..self }
    }

    /// Sets the pace of a host.
    #[must_use]
    pub fn with_pace(mut self, host: &str, pace: Pace) -> Self {
        self.paces.insert(host.to_owned(), pace);
        self
    }

    /// Returns the slots as a claim takes them.
    pub fn share(self) -> Arc<dyn ClaimSlots> {
        Arc::new(self)
    }
}

impl ClaimSlots for FixedSlots {
    fn of(&self, receiver: Receiver<'_>) -> ReceiverSlots {
        let destination = self.destinations.get(&receiver.destination).copied();
        ReceiverSlots {
            destination: destination.unwrap_or(self.per_destination),
            host: self.hosts.get(receiver.host).copied().unwrap_or(self.per_host),
            pace: self.paces.get(receiver.host).copied().unwrap_or(Pace::Prompt),
            is_known: false,
        }
    }

    fn known(&self) -> Vec<DestinationId> {
        self.known.clone()
    }
}

/// The slots that a claim in progress may still fill.
#[derive(Debug, Clone)]
pub struct SlotBudget {
    slots: Arc<dyn ClaimSlots>,
    total: usize,
    retries: usize,
    by_pace: PaceSlots,
    /// Leases that the claim has granted.
    destinations: BTreeMap<DestinationId, usize>,
    hosts: BTreeMap<Box<str>, HostLeases>,
}

/// The leases that a claim has granted at one host: to destinations that have answered, and to the others.
#[derive(Debug, Clone, Copy, Default)]
struct HostLeases {
    known: usize,
    unproven: usize,
}

impl HostLeases {
    fn of(&mut self, is_known: bool) -> &mut usize {
        if is_known { &mut self.known } else { &mut self.unproven }
    }
}

/// Events of one destination that a claim takes together if it takes many: fewer would cost a search for each event.
const SHARE_MIN: usize = 2;

impl SlotBudget {
    /// Returns how many events a claim takes of each of so many destinations with due events: equal shares, but of a few
    /// events at least. If there are too many destinations for that, the next claims take events of the others.
    pub fn equal_share(leases: usize, destinations: usize) -> usize {
        let events_min = (leases / 16).clamp(1, SHARE_MIN);
        (leases / destinations.max(1)).max(events_min)
    }

    pub fn new(request: &ClaimRequest) -> Self {
        Self {
            slots: Arc::clone(&request.slots),
            total: request.limit,
            retries: request.retries_max,
            by_pace: request.pace_slots,
            destinations: BTreeMap::new(),
            hosts: BTreeMap::new(),
        }
    }

    /// Returns how many leases the claim may still grant.
    pub fn total(&self) -> usize {
        self.total
    }

    /// Returns how many leases on retries the claim may still grant.
    pub fn retries(&self) -> usize {
        self.retries.min(self.total)
    }

    /// Returns the destinations whose events are granted first: see [`ClaimSlots::known`].
    pub fn known(&self) -> Vec<DestinationId> {
        self.slots.known()
    }

    /// Returns how many of the leases are for known destinations. The rest is for all in turn, so that known destinations
    /// do not delay the others for ever.
    pub fn known_share(&self) -> usize {
        self.total - self.total / 4
    }

    /// Returns how many more events of a receiver the claim may grant, of retries or of first attempts.
    pub fn available(&self, receiver: Receiver<'_>, is_retry: bool) -> usize {
        let all = if is_retry { self.retries() } else { self.total };
        if all == 0 {
            return 0;
        }
        let slots = self.slots.of(receiver);
        let at_destination = self.destinations.get(&receiver.destination).copied().unwrap_or(0);
        all.min(slots.destination.saturating_sub(at_destination))
            .min(self.left_at_host(receiver.host, slots))
            .min(self.by_pace.available(slots.pace))
    }

    /// Returns how many more events the claim may grant at the host of a receiver, to destinations like it: those that have
    /// answered, or those that have not.
    pub fn available_at_host(&self, receiver: Receiver<'_>) -> usize {
        self.left_at_host(receiver.host, self.slots.of(receiver))
    }

    fn left_at_host(&self, host: &str, slots: ReceiverSlots) -> usize {
        let mut granted = self.hosts.get(host).copied().unwrap_or_default();
        slots.host.saturating_sub(*granted.of(slots.is_known))
    }

    /// Counts granted leases.
    pub fn take(&mut self, receiver: Receiver<'_>, count: usize, is_retry: bool) {
        self.total = self.total.saturating_sub(count);
        if is_retry {
            self.retries = self.retries.saturating_sub(count);
        }
        let slots = self.slots.of(receiver);
        self.by_pace.take(slots.pace, count);
        *self.destinations.entry(receiver.destination).or_default() += count;
        if !self.hosts.contains_key(receiver.host) {
            self.hosts.insert(receiver.host.into(), HostLeases::default());
        }
        if let Some(at_host) = self.hosts.get_mut(receiver.host) {
            *at_host.of(slots.is_known) += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial;

    const A: DestinationId = DestinationId(1);
    const B: DestinationId = DestinationId(2);

    fn budget(slots: FixedSlots, limit: usize, by_pace: PaceSlots) -> SlotBudget {
        let claim = ClaimRequest {
            limit,
            retries_max: 2,
            slots: slots.share(),
            pace_slots: by_pace,
            ..trial::claim()
        };
        SlotBudget::new(&claim)
    }

    fn at(destination: DestinationId, host: &str) -> Receiver<'_> {
        Receiver { destination, host, is_failing: false }
    }

    #[test]
    fn destinations_of_one_host_share_its_slots() {
        let mut budget = budget(FixedSlots::per_destination(3).per_host(4), 10, PaceSlots::UNLIMITED);
        assert_eq!(budget.available(at(A, "h"), false), 3);
        budget.take(at(A, "h"), 3, false);
        assert_eq!(budget.available(at(A, "h"), false), 0);
        assert_eq!((budget.available(at(B, "h"), false), budget.available(at(B, "i"), false)), (1, 3));
    }

    /// Slots of one host for a destination that answers, and for others.
    #[derive(Debug)]
    struct OneKnown;

    impl ClaimSlots for OneKnown {
        fn of(&self, receiver: Receiver<'_>) -> ReceiverSlots {
            let is_known = receiver.destination == A;
            let host = if is_known { 8 } else { 2 };
            ReceiverSlots { destination: 8, host, pace: Pace::Prompt, is_known }
        }

        fn known(&self) -> Vec<DestinationId> {
            vec![A]
        }
    }

    #[test]
    fn leases_of_a_destination_that_answers_leave_its_host_slots_for_new_ones() {
        let claim = ClaimRequest { limit: 20, slots: Arc::new(OneKnown), ..trial::claim() };
        let mut budget = SlotBudget::new(&claim);
        budget.take(at(A, "h"), 8, false);
        assert_eq!((budget.available(at(A, "h"), false), budget.available(at(B, "h"), false)), (0, 2));
        budget.take(at(B, "h"), 2, false);
        assert_eq!(budget.available(at(B, "h"), false), 0);
    }

    #[test]
    fn shares_are_equal_and_not_too_small_for_a_large_claim() {
        let shares = [(100, 10), (100, 200), (500, 200), (40, 100), (8, 3), (3, 5)];
        assert_eq!(shares.map(|(leases, many)| SlotBudget::equal_share(leases, many)), [10, 2, 2, 2, 2, 1]);
    }

    #[test]
    fn retries_use_slots_of_both_limits() {
        let mut budget = budget(FixedSlots::per_destination(9), 3, PaceSlots::UNLIMITED);
        assert_eq!(budget.available(at(A, "h"), true), 2);
        budget.take(at(A, "h"), 2, true);
        assert_eq!((budget.available(at(B, "h"), true), budget.available(at(B, "h"), false)), (0, 1));
    }

    #[test]
    fn slow_hosts_leave_slots_to_prompt_ones_but_not_the_other_way_round() {
        let slots =
            FixedSlots::per_destination(9).with_pace("silent", Pace::Silent).with_pace("slow", Pace::Slow);
        let by_pace = PaceSlots::new(|pace| [8, 6, 4, 2][pace as usize]);
        let mut budget = budget(slots, 8, by_pace);
        budget.take(at(A, "silent"), 2, false);
        assert_eq!(budget.available(at(A, "silent"), false), 0);
        assert_eq!(budget.available(at(B, "slow"), false), 2);
        budget.take(at(B, "slow"), 2, false);
        assert_eq!(
            (budget.available(at(B, "slow"), false), budget.available(at(B, "prompt"), false)),
            (0, 4)
        );
        budget.take(at(B, "prompt"), 4, false);
        assert_eq!(budget.available(at(A, "prompt"), false), 0);
    }
}
