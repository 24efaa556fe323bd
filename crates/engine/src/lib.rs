//! The use cases of delivery, over three ports: a [`Store`](posthaste_store::Store), a [`Sender`] and a [`Clock`].
//!
//! ```text
//!  producers                                                                        followers
//!      │                                                                                ▲
//!   enqueue ─► store ─► claim ─► deliver: send ─► decide ─► settle ─► store ─► publish ─┘
//!  (grouped)             ▲  as many as          (pure, in   (grouped)
//!                        │  can be sent now       domain)
//!                        │                 heartbeat ─► store
//!               slots, circuits           (renews every lease
//!             (what can be sent now)       until its settle has committed)
//! ```
//!
//! There are no rounds: `claim` refills a slot as soon as it is free, each delivery runs by itself, `settle`
//! groups whatever has finished, and `heartbeat` renews whatever is in flight. A loop never ends because of an
//! error; it backs off and goes on until the engine is drained.
#![forbid(unsafe_code)]

mod enqueue;

mod circuits;
mod claim;
mod slots;

mod deliver;
mod heartbeat;
mod settle;

mod cycle;
mod maintain;
mod observe;
mod publish;

mod backoff;
mod clock;
mod engine;
mod phase;
mod sender;
mod settings;
mod supervise;
mod worker;

pub use clock::{Clock, TokioClock, within};
pub use engine::{Drained, Engine, OnceError, Runtimes};
pub use enqueue::{Enqueuer, enqueuer};
pub use observe::{AttemptSeen, Observer, Pulse};
pub use publish::{FellBehind, Publisher, Subscription};
pub use sender::Sender;
pub use settings::{InvalidSettings, Settings};
pub use worker::{Chance, Ports};
