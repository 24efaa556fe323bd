//! The limits of a worker's deliveries.

use posthaste_store::Pace;

use crate::settings::Settings;

/// The part of the byte limit that must be available before large payloads are claimed again. Smaller steps would make
/// many small claims.
const AVAILABLE_PART_MIN: usize = 16;
/// The same of the byte limit of payloads that are not read yet.
const AVAILABLE_UNREAD_PART_MIN: usize = 4;

/// Claimed events, as a multiple of the requests in flight. The others wait in the worker, so that the next request starts
/// without a claim.
const CLAIMED_PER_SLOT: usize = 3;
/// The part of the requests in flight that may be claimed beyond all others, for hosts that have few events claimed.
const FIRST_CLAIMS_PART: usize = 4;
/// The part of the free ones of these that one host may use.
const FIRST_CLAIMS_PART_OF_HOST: usize = 8;

/// How many deliveries a worker holds at most.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Requests in flight.
    pub(super) in_flight: usize,
    /// Deliveries, those that wait for a place in a window included.
    pub(super) total: usize,
    /// Deliveries beyond `total`, of hosts that answer and have few.
    pub(super) first_claims: usize,
    pub(super) retries: usize,
    pub(super) per_destination: usize,
    pub(super) per_host: usize,
    /// The first window of a destination or host.
    pub(super) window_start: usize,
    pub(super) large_bytes: usize,
    /// Size of the largest payload that is not counted in bytes.
    pub(super) small_payload_bytes: usize,
    /// Bytes of claimed payloads that are not read yet.
    unread_bytes: usize,
    /// Size of the largest payload that comes with its lease.
    inline_payload_bytes: usize,
}

/// Bytes of the claimed payloads that count against a limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PayloadBytes {
    /// Large payloads, read or not.
    pub(super) large: usize,
    /// Payloads that are not read yet.
    pub(super) unread: usize,
}

/// The payloads that a claim may bring into flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AvailablePayloads {
    /// Payloads of any size, with at most this many bytes together.
    AnySize(usize),
    /// Only payloads of at most this many bytes each: the byte limit is reached.
    OnlySmall(usize),
}

impl Limits {
    pub(super) fn new(settings: &Settings) -> Self {
        // A quarter of the slots is reserved for first attempts, even if the configured retry batch is larger.
        let reserved_for_first_attempts = (settings.concurrency / 4).max(1);
        let retries_max = settings.concurrency.saturating_sub(reserved_for_first_attempts).max(1);
        Self {
            in_flight: settings.concurrency,
            total: settings.concurrency * CLAIMED_PER_SLOT,
            first_claims: (settings.concurrency / FIRST_CLAIMS_PART).max(1),
            retries: settings.retry_batch.min(retries_max),
            per_destination: settings.per_destination,
            per_host: settings.per_host(),
            window_start: settings.window_start,
            large_bytes: settings.in_flight_bytes_max,
            small_payload_bytes: settings.small_payload_bytes(),
            unread_bytes: settings.unread_payload_bytes_max(),
            inline_payload_bytes: settings.inline_payload_bytes_max,
        }
    }

    /// Returns the slots for hosts of this pace and of every slower one together. A quarter is kept for prompt hosts, and a
    /// half for those that answer within a second; silent hosts share a quarter.
    pub(super) fn of_pace(&self, pace: Pace) -> usize {
        let quarters = match pace {
            Pace::Prompt => return self.total,
            Pace::Steady => 3,
            Pace::Slow => 2,
            Pace::Silent => 1,
        };
        (self.in_flight * quarters).div_ceil(4)
    }

    /// Returns how many deliveries may be claimed beside so many.
    pub(super) fn claimable_beside(&self, total: usize) -> usize {
        match self.total.saturating_sub(total) {
            0 => (self.total + self.first_claims).saturating_sub(total),
            free => free,
        }
    }

    /// Returns how many of so many deliveries a host that answers may have when only the first ones of hosts are claimed.
    pub(super) fn first_claims_of_host(&self, total: usize) -> usize {
        self.claimable_beside(total).div_ceil(FIRST_CLAIMS_PART_OF_HOST)
    }

    /// Returns the size of a payload if it is counted in bytes, otherwise zero.
    pub(super) fn large_bytes_of(&self, payload_bytes: usize) -> usize {
        if payload_bytes > self.small_payload_bytes { payload_bytes } else { 0 }
    }

    /// Returns the payloads that may be claimed beside these.
    pub(super) fn available_payloads(&self, used: PayloadBytes) -> AvailablePayloads {
        let large = available(self.large_bytes, used.large, AVAILABLE_PART_MIN);
        let unread = available(self.unread_bytes, used.unread, AVAILABLE_UNREAD_PART_MIN);
        match (large, unread) {
            (Some(large), Some(unread)) => AvailablePayloads::AnySize(large.min(unread)),
            (None, Some(_)) => AvailablePayloads::OnlySmall(self.small_payload_bytes),
            (Some(_), None) => AvailablePayloads::OnlySmall(self.inline_payload_bytes),
            (None, None) => {
                AvailablePayloads::OnlySmall(self.small_payload_bytes.min(self.inline_payload_bytes))
            }
        }
    }

    pub(super) fn is_byte_limit_reached(&self, used: PayloadBytes) -> bool {
        matches!(self.available_payloads(used), AvailablePayloads::OnlySmall(_))
    }
}

/// Returns the bytes left of a limit, or none if they are less than a part of it.
fn available(limit: usize, used: usize, part_min: usize) -> Option<usize> {
    let left = limit.saturating_sub(used);
    (used == 0 || left >= limit / part_min).then_some(left)
}
