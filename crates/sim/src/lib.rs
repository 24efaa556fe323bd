//! A whole delivery system in one thread: several engines on one memory store, strangers for receivers, and a fault
//! of some kind every few seconds of a simulated hour.
//!
//! Everything that happens follows from the seed: time is paused and jumps from timer to timer, chance is a seeded
//! generator, and there is one thread. So a seed that fails fails again.
//!
//! ```text
//! producers, operators ─┐
//!                       ├─► FaultyStore ──────────► CheckedStore ─► MemoryStore
//! engine ───────────────┘   (outages, lost replies,  (every step is   (or one with a
//!    │                       crashes, stalls)         compared with    planted bug)
//!    └─► FaultySender ─► receivers                    the rules)
//!        (crashes, panics)
//! ```
//!
//! `check` holds the properties, with books and arithmetic of its own. [`Sabotage`] lets a test swap in a store or an
//! engine with one known bug, to show that the simulation can fail.
#![forbid(unsafe_code)]

mod chaos;
mod check;
mod client;
mod dice;
mod fault;
mod incarnation;
mod occupancy;
mod panics;
mod receivers;
mod run;
mod sabotage;
mod scenario;
mod time;
mod worker;
mod worker_ports;
mod world;

pub use check::{Counts, Violation};
pub use fault::{Fault, Tally};
pub use run::{Report, run, run_sabotaged};
pub use sabotage::{Honest, Sabotage};
pub use scenario::{Calm, RetryRules, Scenario};
pub use time::elapsed;
