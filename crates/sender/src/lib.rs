//! The HTTP sender: implements the engine's `Sender` trait. One lease becomes one signed request and one outcome.
//!
//! ```text
//!  Lease ─► request ─► pool ───────────────────────────► exchange ─► response ─► Outcome
//!           signed      │ no pooled connection     ▲      one request  the status
//!           headers     ▼                          │      is sent      line decides
//!                    connect: resolve ─► guard ─► dial ─► TLS ─► HTTP/1.1 or HTTP/2
//!                                     (every address) (or through the egress proxy)
//! ```
//!
//! Receivers are untrusted. One deadline covers everything from the name lookup to the last byte of the response, and
//! fixed limits bound what a receiver can make the sender read, keep or wait for. Every failure of a receiver becomes an
//! [`Outcome`](posthaste_domain::Outcome), never an `Err`. A lack of this host's own resources, such as file descriptors, is
//! an error and no outcome. The sender dials a receiver, or requests a tunnel to it from
//! the proxy, only at addresses that the [`AddressGuard`] has permitted. The one exception is a proxy that the operator
//! configured to resolve names itself.
#![forbid(unsafe_code)]

mod sender;

mod destinations;
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

mod connection;
mod exchange;
mod response;

mod deadline;
mod failure;
mod options;
mod receive_budget;
mod shortage;
mod sockets;
mod stream;

pub use guard::{
    AddressGuard, AllowedNetworks, DeniedNetworks, ForbiddenAddress, ForbiddenDestination, InvalidNetwork,
    PermittedAddress,
};
pub use options::{CompatHeaders, InvalidOptions, SenderOptions};
pub use proxy::{InvalidProxy, Proxy};
pub use resolve::{DnsResolver, LookupError, Resolver, SystemResolver};
pub use sender::HttpSender;
pub use tls::{RootSource, load_root_certificates};
