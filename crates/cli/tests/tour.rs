//! What README and its neighbours say is true: the tour and the repair run as they are written, tables agree with the
//! program, code in documents is code that runs, and links lead somewhere.
#![expect(clippy::unwrap_used, reason = "what goes wrong in a test fails it")]

#[path = "tour/document.rs"]
mod document;
#[path = "tour/shell.rs"]
mod shell;
#[path = "tour/stage.rs"]
mod stage;

#[path = "tour/banner.rs"]
mod banner;
#[path = "tour/facts.rs"]
mod facts;
#[path = "tour/receiving.rs"]
mod receiving;
#[path = "tour/walk.rs"]
mod walk;
