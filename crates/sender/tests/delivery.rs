//! What a well-behaved receiver gets, and what becomes of the connections to it.
#![expect(clippy::unwrap_used, reason = "what goes wrong in a test fails it")]

#[path = "support/certificate.rs"]
mod certificate;
#[path = "delivery/receiver.rs"]
mod receiver;

#[path = "delivery/connections.rs"]
mod connections;
#[path = "delivery/http2.rs"]
mod http2;
#[path = "delivery/request.rs"]
mod request;
#[path = "delivery/response.rs"]
mod response;
