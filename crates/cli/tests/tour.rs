//! The documents agree with the program: README's tour and its repair run as they are written, tables match the settings
//! and the API, code in documents runs, and links resolve.
#![expect(clippy::unwrap_used, reason = "an error fails the test")]

#[path = "support/child.rs"]
mod child;
#[path = "tour/document.rs"]
mod document;
#[path = "tour/runner.rs"]
mod runner;
#[path = "tour/shell.rs"]
mod shell;

#[path = "tour/banner.rs"]
mod banner;
#[path = "tour/endpoints.rs"]
mod endpoints;
#[path = "tour/facts.rs"]
mod facts;
#[path = "tour/notices.rs"]
mod notices;
#[path = "tour/readme.rs"]
mod readme;
#[path = "tour/receiving.rs"]
mod receiving;
