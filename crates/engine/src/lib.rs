//! The delivery engine: claims due events, sends them, settles the results and publishes notices.
//!
//! The engine reaches the outside world through ports: a [`Store`](posthaste_store::Store), a [`Sender`], a [`Clock`],
//! a [`RandomSource`] and an [`Observer`].
//!
//! ```text
//!  producers                                                                     subscribers
//!      │                                                                              ▲
//!      └─► store ─► claim ─► deliver: send ─► decide ─► settle ─► store ─► publish ───┘
//!                     ▲                      (pure, in  (batched)
//!                     │                       domain)
//!       slots, circuits, shortages      heartbeat ─► store
//!          (how much can be sent       (renews each lease until
//!             right now)                its settle has committed)
//! ```
//!
//! Dispatch is continuous, not in rounds. `claim` fills a slot as soon as it becomes free. Each delivery is a task of
//! its own. `settle` batches the results of finished deliveries. `heartbeat` renews the leases of all deliveries in
//! flight. No loop ends because of an error: it backs off and continues until the engine is drained.
//!
//! [`lease_protocol`] explains why a crash, a stall or a lost reply neither loses an event nor writes a wrong result.
#![forbid(unsafe_code)]

mod circuits;
mod claim;
mod claim_budget;
mod due_times;
mod intervals;
mod shortages;
mod slots;

mod attempt_log;
mod deliver;
mod direct;
mod heartbeat;
mod lanes;
pub mod lease_protocol;
mod payloads;
mod profiles;
mod release;
mod settle;

mod activity;
mod cycle;
mod disabled;
mod expire;
mod maintain;
mod observe;
mod operations;
mod publish;

mod backoff;
mod clock;
mod clock_skew;
mod engine;
mod phase;
mod sender;
mod settings;
mod signing;
mod store_time;
mod supervise;
mod worker;

pub use clock::{Clock, TokioClock, host_time, within};
pub use clock_skew::ClockSkew;
pub use engine::{DrainReport, Engine, RunOnceError, Runtimes};
pub use observe::{AttemptEvent, Observer, WorkerHealth};
pub use profiles::{Profile, ProfileInUse, SharedProfiles, UnusableProfile};
pub use publish::{Publisher, Subscription, SubscriptionGap};
pub use sender::{LocalShortage, Sender};
pub use settings::{INLINE_PAYLOAD_BYTES_MAX, InvalidSettings, SLOW_AFTER, Settings, WINDOW_START};
pub use settle::WriteFailure;
pub use signing::{SECRETS_LEARNED_WITHIN, SharedSigningKeys};
pub use worker::{Ports, RandomSource};
