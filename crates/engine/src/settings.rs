//! The settings of a worker, and their validation.

use std::time::Duration;

use posthaste_domain::{BreakerPolicy, LeaseTerms, RetryPolicy, WorkerId};

const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 3_600);

/// Number of requests that may be in flight to a new destination or host by default.
pub const WINDOW_START: usize = 2;

/// How long a request may be in flight by default until it counts as slow.
pub const SLOW_AFTER: Duration = Duration::from_secs(1);

/// Size of the largest payload that comes with its lease by default. It crosses a link of 6 MB/s in 3 ms, which is little
/// beside the other costs of a delivery over such a link. A call for each payload costs more than that on a fast one.
pub const INLINE_PAYLOAD_BYTES_MAX: usize = 16 << 10;

/// The settings of one worker.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The worker's name in logs, reports and the attempt history. Two workers may share a name.
    pub worker_id: WorkerId,
    /// The owner under which the store records this worker's leases. It contains a random part per start, so that two
    /// starts, or two workers with one name, never share it.
    pub lease_owner: WorkerId,
    pub policy: RetryPolicy,
    /// When circuits open. It has no effect if `policy` uses no circuit breaker.
    pub breaker: BreakerPolicy,
    pub lease: LeaseTerms,
    /// Limit for one whole request. It may exceed the lease, because heartbeats renew the lease meanwhile.
    pub timeout: Duration,
    /// Maximum number of requests in flight in this worker.
    pub concurrency: usize,
    /// Maximum number of requests in flight to one destination in this worker.
    pub per_destination: usize,
    /// Number of requests that may be in flight to a new destination or host. It grows with the answers that arrive, up to
    /// `per_destination` and [`Settings::per_host`].
    pub window_start: usize,
    /// How long a request may be in flight until it counts like one to a slow host, and its host, if it has not answered
    /// since, as slow.
    pub slow_after: Duration,
    /// Maximum size of all payloads in flight in this worker together, in bytes. One event may exceed it, and small payloads
    /// are not counted: see [`Settings::small_payload_bytes`].
    pub in_flight_bytes_max: usize,
    /// Size of the largest payload that comes with its lease. A larger one is read from the store before it is sent, apart
    /// from claims, so that it delays no other event.
    pub inline_payload_bytes_max: usize,
    /// Maximum number of retries in flight in this worker. Retries never use more than three quarters of the slots;
    /// the rest is reserved for first attempts.
    pub retry_batch: usize,
    /// How often the worker polls the store for due events and new notices when nothing wakes it earlier.
    pub poll_interval: Duration,
    /// How often the worker logs a cycle report.
    pub cycle_interval: Duration,
    /// Number of consecutive lost leases after which an event is dead-lettered as abandoned.
    pub abandon_after: u32,
    /// How long after it was first due or last requeued an event is dead-lettered as expired. None never expires events.
    pub expire_after: Option<Duration>,
    /// How long delivered events and attempts are kept. None keeps them forever.
    pub retention: Option<Duration>,
    /// How long failed events are kept after their last change. None keeps them forever.
    pub dead_letter_retention: Option<Duration>,
}

/// A setting outside its valid range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{setting} must be {rule}, got {value}")]
pub struct InvalidSettings {
    pub setting: &'static str,
    pub value: String,
    pub rule: &'static str,
}

impl Settings {
    /// Returns the default settings for a worker whose name is also its lease owner.
    pub fn new(owner: WorkerId) -> Self {
        Self {
            worker_id: owner.clone(),
            lease_owner: owner,
            policy: RetryPolicy::default(),
            breaker: BreakerPolicy::default(),
            lease: LeaseTerms::new(Duration::from_secs(30))
                .expect("30 s is longer than the shortest heartbeat interval"),
            timeout: Duration::from_secs(30),
            concurrency: 512,
            per_destination: 20,
            window_start: WINDOW_START,
            slow_after: SLOW_AFTER,
            in_flight_bytes_max: 64 << 20,
            inline_payload_bytes_max: INLINE_PAYLOAD_BYTES_MAX,
            retry_batch: 100,
            poll_interval: Duration::from_secs(1),
            cycle_interval: Duration::from_secs(60),
            abandon_after: 5,
            expire_after: Some(Duration::from_secs(24 * 3_600)),
            retention: Some(Duration::from_secs(30 * 24 * 3_600)),
            dead_letter_retention: None,
        }
    }

    /// Returns the maximum number of requests in flight to one host, which several destinations may share: half of all, but
    /// at least as many as to one destination.
    pub fn per_host(&self) -> usize {
        (self.concurrency / 2).max(self.per_destination)
    }

    /// Returns the size up to which payloads are small: 16 KiB by default. Small payloads are not counted in
    /// `in_flight_bytes_max`. All that a worker holds together have at most three eighths of it.
    pub fn small_payload_bytes(&self) -> usize {
        self.in_flight_bytes_max / 8 / self.concurrency.max(1)
    }

    /// Returns the maximum size of the payloads that are claimed and not yet read, in bytes: 2 MiB by default. One event may
    /// exceed it. Each of them is larger than `inline_payload_bytes_max`, so they are at most a quarter as many as the
    /// requests in flight.
    pub fn unread_payload_bytes_max(&self) -> usize {
        (self.concurrency / 4).max(1) * self.inline_payload_bytes_max
    }

    /// Validates every setting and returns the first that is out of range.
    pub(crate) fn validate(&self) -> Result<(), InvalidSettings> {
        let at_least_one = |setting, value: usize| require(setting, &value, value > 0, "at least 1");
        let positive = |setting, value: Duration| {
            require(setting, &format!("{value:?}"), !value.is_zero(), "longer than zero")
        };
        at_least_one("concurrency", self.concurrency)?;
        at_least_one("per_destination", self.per_destination)?;
        at_least_one("window_start", self.window_start)?;
        at_least_one("in_flight_bytes_max", self.in_flight_bytes_max)?;
        require("retry_batch", &self.retry_batch, (1..=10_000).contains(&self.retry_batch), "1 to 10000")?;
        require("abandon_after", &self.abandon_after, self.abandon_after > 0, "at least 1")?;
        let timeout = format!("{:?}", self.timeout);
        require("timeout", &timeout, self.timeout <= TIMEOUT_MAX, "a day at most")?;
        positive("timeout", self.timeout)?;
        positive("slow_after", self.slow_after)?;
        positive("poll_interval", self.poll_interval)?;
        self.expire_after.map_or(Ok(()), |after| positive("expire_after", after))?;
        positive("cycle_interval", self.cycle_interval)
    }
}

fn require(
    setting: &'static str,
    value: &dyn ToString,
    is_valid: bool,
    rule: &'static str,
) -> Result<(), InvalidSettings> {
    if is_valid { Ok(()) } else { Err(InvalidSettings { setting, value: value.to_string(), rule }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_setting_is_reported_with_its_name_and_value() {
        let error_of = |change: fn(&mut Settings)| {
            let mut settings = Settings::new(WorkerId::new("w").unwrap());
            change(&mut settings);
            settings.validate().unwrap_err().to_string()
        };
        assert_eq!(error_of(|s| s.concurrency = 0), "concurrency must be at least 1, got 0");
        assert_eq!(error_of(|s| s.retry_batch = 10_001), "retry_batch must be 1 to 10000, got 10001");
        assert_eq!(error_of(|s| s.timeout = Duration::ZERO), "timeout must be longer than zero, got 0ns");
        let settings = Settings::new(WorkerId::new("w").unwrap());
        assert!(settings.validate().is_ok());
        assert_eq!(settings.small_payload_bytes(), 16 << 10);
    }
}
