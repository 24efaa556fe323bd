//! The harness: scripted receivers on loopback, and a fixture with the sender under test.

pub(crate) mod behaviours_bodies;
pub(crate) mod behaviours_http1;
pub(crate) mod behaviours_http2;
pub(crate) mod behaviours_tls;

pub(crate) mod certificates;
pub(crate) mod fixture;
pub(crate) mod frames;
pub(crate) mod peer;
pub(crate) mod receiver;
pub(crate) mod script;
pub(crate) mod socket;
pub(crate) mod time;

#[path = "../../support/lease.rs"]
mod lease;
#[path = "../../support/within.rs"]
pub(crate) mod within;
