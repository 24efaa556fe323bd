//! Checks that no guarded test disappears from this repository unnoticed.
//!
//! The guarded tests are the five tests of the retry contract, and every test that `docs/requirements.md` lists for a
//! criterion of the requirement documents S0–S4. `cargo test` stays green when a test is deleted, renamed or ignored, so
//! this crate compares the log of a full run with the list:
//!
//! ```text
//! test log ─────────► parse_log ──────────┐
//!                                         ├─► check ─► Report { findings, covered }
//! requirements.md ──► parse_requirements ─┘
//! ```
//!
//! The list itself cannot shrink unnoticed either. Its ids are constants here ([`REQUIRED_IDS`]), every row names a test
//! with the prefix of its criterion, and every test with such a prefix is in a row. The rules about crates, manifests and
//! wording are tests of this package.
#![forbid(unsafe_code)]

mod check;
mod criteria;
mod finding;
mod log;
mod requirements;

pub use check::{Report, check};
pub use criteria::{BACKOFF_TESTS, BACKOFF_TESTS_SOURCE, REQUIRED_IDS, test_prefixes};
pub use finding::Finding;
pub use log::{TestBinary, TestLog, TestResult, TestRun, parse_log};
pub use requirements::{MalformedRow, Requirements, Row, RowError, parse_requirements};
