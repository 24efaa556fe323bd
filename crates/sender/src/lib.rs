//! The HTTP adapter behind the engine's sender port: one lease becomes one signed request and one outcome.
//!
//! ```text
//!  Lease ─► request ─► pool ───────────────────────────► exchange ─► response ─► Outcome
//!           signed,     │ no idle connection       ▲      one request  status line
//!           frozen      ▼                          │      on the wire  decides
//!                    connect: resolve ─► guard ─► dial ─► TLS ─► HTTP/1.1 or HTTP/2
//!                                     (every address) (or through the egress proxy)
//! ```
//!
//! Receivers are strangers. Everything from the name lookup to the last byte of the response happens under one
//! deadline and within fixed bounds, and whatever a receiver does becomes an [`Outcome`](posthaste_domain::Outcome):
//! there is no `Err`. A receiver is dialled, or asked of the proxy, only at addresses that the [`Guard`] has permitted,
//! unless the proxy was chosen to look names up itself.
#![forbid(unsafe_code)]

mod sender;

mod request;
mod target;

mod pool;

mod connect;
mod dial;
mod guard;
mod proxy;
mod race;
mod resolve;
mod tls;

mod exchange;
mod link;
mod response;

mod clock;
mod deadline;
mod failure;
mod meter;
mod options;
mod stream;

pub use clock::{SystemClock, WallClock};
pub use guard::{AllowedNetworks, Forbidden, Guard, InvalidNetwork, Permitted};
pub use options::{InvalidOptions, SenderOptions};
pub use proxy::{InvalidProxy, Proxy};
pub use resolve::{LookupError, OwnResolver, Resolve, SystemResolver};
pub use sender::HttpSender;
