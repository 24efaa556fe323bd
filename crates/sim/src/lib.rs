//! A simulation of the whole delivery system: several engines on one memory store, simulated receivers, and a new fault
//! every few seconds for one simulated hour.
//!
//! A simulation is deterministic. Time is paused and jumps from timer to timer, all random numbers come from the seed,
//! and there is one thread. A seed that fails therefore always fails in the same way.
//!
//! ```text
//! producers, tenants, operators ─┐
//!                                ├─► FaultyStore ──────────► CheckedStore ─► MemoryStore
//! engine ────────────────────────┘   (outages, lost replies,  (every step is   (or one with a
//!    │                                crashes, stalls)         compared with    planted bug)
//!    └─► FaultySender ─► receivers                             the rules)
//!        (crashes, panics)
//! ```
//!
//! Producers enqueue events to URLs. Tenants use the registry: they create applications and endpoints, publish messages,
//! disable, enable and delete endpoints, rotate keys, resend messages and start background operations.
//!
//! `check` validates the properties, with records and arithmetic independent of the code under test. [`PlantedBug`] lets
//! a test replace the store or the engines by ones with a known bug, to show that the simulation finds it.
//!
//! `crowd` is a second, smaller simulation: one engine among many receivers that hang, crawl or fail.
#![forbid(unsafe_code)]

mod activity_log;
mod bulk_operator;
mod chaos;
mod check;
mod client;
mod crowd;
mod fault;
mod in_flight;
mod panics;
mod planted_bug;
mod process;
mod random;
mod receivers;
mod registry_layer;
mod run;
mod scenario;
mod tenant;
mod time;
mod worker;
mod worker_ports;
mod world;

pub use check::{HandledCounts, RegistryCounts, Violation};
pub use crowd::{Crowd, CrowdBehavior, CrowdReport, CrowdScenario, run_crowd};
pub use fault::{Fault, FaultCounts};
pub use planted_bug::{NoBug, PlantedBug};
pub use registry_layer::{
    ActivityLayer, ApplicationsLayer, BulkLayer, EndpointsLayer, LayeredRegistry, MessagesLayer,
    OperationsLayer, layer_registry,
};
pub use run::{Report, run, run_with_bug};
pub use scenario::{FaultInjection, RegistryRules, RetryRules, Scenario};
pub use time::elapsed;
