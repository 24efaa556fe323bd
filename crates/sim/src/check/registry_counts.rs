//! How often the clients of the registry did what a simulation must exercise.

/// Calls of the registry that changed something, and their effects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RegistryCounts {
    pub endpoints: u64,
    pub messages: u64,
    /// Events that publishing messages added.
    pub fan_out_events: u64,
    /// Requests that clients repeated after the store had served them.
    pub repeated: u64,
    pub disabled: u64,
    /// Endpoints that the response of a receiver disabled.
    pub disabled_by_receivers: u64,
    pub enabled: u64,
    pub deleted: u64,
    pub rotated: u64,
    /// Requests that were signed with more than one key.
    pub signed_twice: u64,
    /// Events that a resend reopened or added.
    pub resent: u64,
    pub operations: u64,
    /// Events that a background operation reopened or added.
    pub recovered: u64,
    /// Leases on events of FIFO endpoints.
    pub fifo_leases: u64,
    /// Leases that a throttle counted.
    pub throttled_leases: u64,
}

impl RegistryCounts {
    /// Returns the counts with their names.
    pub fn named(&self) -> [(u64, &'static str); 15] {
        [
            (self.endpoints, "endpoints created"),
            (self.messages, "messages published"),
            (self.fan_out_events, "events of messages"),
            (self.repeated, "requests repeated after they were served"),
            (self.disabled, "endpoints disabled"),
            (self.disabled_by_receivers, "endpoints disabled by their receivers"),
            (self.enabled, "endpoints enabled"),
            (self.deleted, "endpoints deleted"),
            (self.rotated, "keys rotated"),
            (self.signed_twice, "requests signed with several keys"),
            (self.resent, "events resent"),
            (self.operations, "background operations started"),
            (self.recovered, "events recovered by operations"),
            (self.fifo_leases, "leases in FIFO order"),
            (self.throttled_leases, "leases under a throttle"),
        ]
    }

    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Self) {
        self.endpoints += other.endpoints;
        self.messages += other.messages;
        self.fan_out_events += other.fan_out_events;
        self.repeated += other.repeated;
        self.disabled += other.disabled;
        self.disabled_by_receivers += other.disabled_by_receivers;
        self.enabled += other.enabled;
        self.deleted += other.deleted;
        self.rotated += other.rotated;
        self.signed_twice += other.signed_twice;
        self.resent += other.resent;
        self.operations += other.operations;
        self.recovered += other.recovered;
        self.fifo_leases += other.fifo_leases;
        self.throttled_leases += other.throttled_leases;
    }
}
