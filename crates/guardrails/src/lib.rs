//! Checks that keep the promises of this repository from being dropped quietly.
//!
//! A promise is a test with a name: the five tests of the retry contract, and every test that
//! `docs/requirements.md` lists for a criterion of the requirement documents S0–S4. A test that is deleted, renamed
//! or ignored leaves `cargo test` green, so the log of a full run is compared with the list:
//!
//! ```text
//! test log ─────────► parse_log ──────────┐
//!                                         ├─► check ─► Report { findings, covered }
//! requirements.md ──► parse_requirements ─┘
//! ```
//!
//! The list itself cannot shrink quietly either: its ids are constants here ([`REQUIRED_IDS`]), every row names a test
//! that is named after its criterion, and every test that is named after a criterion is in a row. The rules about crates
//! and manifests are tests of this package.
#![forbid(unsafe_code)]

mod check;
mod criteria;
mod finding;
mod log;
mod requirements;

pub use check::{Report, check};
pub use criteria::{BACKOFF_TESTS, BACKOFF_TESTS_SOURCE, REQUIRED_IDS, names_for};
pub use finding::Finding;
pub use log::{Binary, TestLog, TestResult, TestRun, parse_log};
pub use requirements::{MalformedRow, Requirements, Row, RowError, parse_requirements};
