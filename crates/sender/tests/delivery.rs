//! Deliveries to well-behaved receivers: requests, outcomes and the reuse of connections.
#![expect(clippy::unwrap_used, reason = "an error fails the test")]

#[path = "support/certificate.rs"]
mod certificate;
#[path = "delivery/receiver.rs"]
mod receiver;

#[path = "delivery/connections.rs"]
mod connections;
#[path = "delivery/http2.rs"]
mod http2;
#[path = "delivery/profile.rs"]
mod profile;
#[path = "delivery/request.rs"]
mod request;
#[path = "delivery/response.rs"]
mod response;
