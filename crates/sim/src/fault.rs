//! The kinds of faults, and how often each occurred.

use std::collections::BTreeMap;

macro_rules! faults {
    ($($variant:ident: $name:literal,)*) => {
        /// A kind of fault that the simulation injects.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Fault { $($variant,)* }

        impl Fault {
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

faults! {
    CrashBeforeSend: "crash before send",
    CrashAfterSend: "crash after send",
    CrashBeforeCommit: "crash before commit",
    CrashAfterCommit: "crash after commit",
    ReplyLost: "reply lost after commit",
    StoreOutage: "call during store outage",
    SettleRefused: "settle refused by the store",
    WriteRefused: "claim or renewal refused by the store",
    SlowStore: "call to slow store",
    SlowSettle: "settle slower than the lease",
    StalledWorker: "worker stalled beyond its lease",
    LostHeartbeat: "heartbeat lost",
    ClockStep: "request sent by a host with a wrong clock",
    ClockDrift: "worker's clock drifts",
    StoreClockStep: "store's clock steps back",
    SlowReceiver: "slow receiver",
    FailingReceiver: "failing receiver",
    FlappingReceiver: "flapping receiver",
    HangingReceiver: "hanging receiver",
    ResettingReceiver: "resetting receiver",
    RateLimitingReceiver: "rate-limiting receiver",
    GoneReceiver: "gone receiver",
    ReportRepeated: "activity report arrives again",
    PayloadNotRead: "payload cannot be read",
    SlowPayload: "payload read slower than the lease",
    LocalShortage: "request not sent for lack of a local resource",
    SenderPanic: "panic in the sender",
    PoisonEvent: "poison event crashes its worker",
    OperatorRequeue: "operator requeues",
    OperatorCancel: "operator cancels",
    OperatorCancelInFlight: "operator cancels in flight",
    OperatorPause: "operator pauses a destination",
    OperatorResume: "operator resumes a destination",
    OperatorProbe: "operator probes a destination",
    OperatorDiscard: "operator discards",
    GracefulRestart: "worker drained and restarted",
    RestartSameId: "restart with the same worker id",
}

/// How often each fault occurred. Stalls, drifts and restarts are counted per worker affected; all other faults per
/// call, request or clock reading affected.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FaultCounts(BTreeMap<Fault, u64>);

impl FaultCounts {
    pub fn count(&mut self, fault: Fault) {
        *self.0.entry(fault).or_default() += 1;
    }

    /// Returns how often a fault occurred.
    pub fn of(&self, fault: Fault) -> u64 {
        self.0.get(&fault).copied().unwrap_or_default()
    }

    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Self) {
        for (fault, count) in &other.0 {
            *self.0.entry(*fault).or_default() += count;
        }
    }
}
