//! Receivers that play scripts on loopback, and the sender that meets them.

pub(crate) mod behaviours_bodies;
pub(crate) mod behaviours_http1;
pub(crate) mod behaviours_http2;
pub(crate) mod behaviours_tls;

pub(crate) mod certificates;
pub(crate) mod frames;
pub(crate) mod peer;
pub(crate) mod receiver;
pub(crate) mod script;
pub(crate) mod socket;
pub(crate) mod time;
pub(crate) mod world;

#[path = "../../support/lease.rs"]
mod lease;
#[path = "../../support/within.rs"]
pub(crate) mod within;
