//! How a worker runs.

use std::time::Duration;

use posthaste_domain::{BreakerPolicy, LeaseTerms, RetryPolicy, WorkerId};

const TIMEOUT_MAX: Duration = Duration::from_secs(24 * 3_600);

#[derive(Debug, Clone)]
pub struct Settings {
    /// What this worker is called in logs, reports and histories.
    pub worker_id: WorkerId,
    /// What its leases are held under: another at every start, also where a name is given to it, or to two at once.
    pub owner: WorkerId,
    pub policy: RetryPolicy,
    pub breaker: BreakerPolicy,
    pub lease: LeaseTerms,
    /// For one request as a whole. May exceed the lease, because heartbeats cover it.
    pub timeout: Duration,
    /// Requests in flight in this worker.
    pub concurrency: usize,
    /// Requests in flight to one destination in this worker.
    pub per_destination: usize,
    /// Retries in flight in this worker, and never more than three quarters of its slots; the others are kept for
    /// first attempts.
    pub retry_batch: usize,
    /// How often the store is asked when nothing wakes the worker.
    pub poll_interval: Duration,
    /// How often a cycle report is logged.
    pub cycle: Duration,
    /// Leases in a row that an event may lose before it is dead-lettered as abandoned.
    pub abandon_after: u32,
    /// How long delivered events and attempts are kept; none keeps all.
    pub retention: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{setting} must be {rule}, got {value}")]
pub struct InvalidSettings {
    pub setting: &'static str,
    pub value: String,
    pub rule: &'static str,
}

impl Settings {
    /// The defaults of the contract, for a worker that is called what its leases are held under.
    pub fn new(owner: WorkerId) -> Self {
        Self {
            worker_id: owner.clone(),
            owner,
            policy: RetryPolicy::default(),
            breaker: BreakerPolicy::default(),
            lease: LeaseTerms::new(Duration::from_secs(30)).expect("30 s leave room for a heartbeat"),
            timeout: Duration::from_secs(30),
            concurrency: 512,
            per_destination: 20,
            retry_batch: 100,
            poll_interval: Duration::from_secs(1),
            cycle: Duration::from_secs(60),
            abandon_after: 5,
            retention: Some(Duration::from_secs(30 * 24 * 3_600)),
        }
    }

    pub(crate) fn check(&self) -> Result<(), InvalidSettings> {
        let more_than_zero = |setting, value: usize| check(setting, &value, value > 0, "at least 1");
        let longer_than_zero = |setting, value: Duration| {
            check(setting, &format!("{value:?}"), !value.is_zero(), "longer than zero")
        };
        more_than_zero("concurrency", self.concurrency)?;
        more_than_zero("per_destination", self.per_destination)?;
        check("retry_batch", &self.retry_batch, (1..=10_000).contains(&self.retry_batch), "1 to 10000")?;
        check("abandon_after", &self.abandon_after, self.abandon_after > 0, "at least 1")?;
        let timeout = format!("{:?}", self.timeout);
        check("timeout", &timeout, self.timeout <= TIMEOUT_MAX, "a day at most")?;
        longer_than_zero("timeout", self.timeout)?;
        longer_than_zero("poll_interval", self.poll_interval)?;
        longer_than_zero("cycle", self.cycle)
    }
}

fn check(
    setting: &'static str,
    value: &dyn ToString,
    holds: bool,
    rule: &'static str,
) -> Result<(), InvalidSettings> {
    if holds { Ok(()) } else { Err(InvalidSettings { setting, value: value.to_string(), rule }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_settings_are_refused_by_name() {
        let refused = |change: fn(&mut Settings)| {
            let mut settings = Settings::new(WorkerId::new("w").unwrap());
            change(&mut settings);
            settings.check().unwrap_err().to_string()
        };
        assert_eq!(refused(|s| s.concurrency = 0), "concurrency must be at least 1, got 0");
        assert_eq!(refused(|s| s.retry_batch = 10_001), "retry_batch must be 1 to 10000, got 10001");
        assert_eq!(refused(|s| s.timeout = Duration::ZERO), "timeout must be longer than zero, got 0ns");
        assert!(Settings::new(WorkerId::new("w").unwrap()).check().is_ok());
    }
}
