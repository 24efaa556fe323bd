//! Misbehaving receivers on real sockets. For every behaviour, an attempt ends in time, with one outcome, after one
//! request, and the next attempt succeeds.
//!
//! The tables of behaviours are in `harness/behaviours_….rs`. [`connections`] and [`responses`] test behaviour that
//! involves several requests or well-formed responses.
#![expect(clippy::unwrap_used, reason = "a failed setup fails the test")]

mod connections;
mod harness;
mod responses;
mod run;

use futures_util::{StreamExt as _, stream};

use crate::harness::fixture::Fixture;
use crate::harness::script::Case;
use crate::harness::{behaviours_bodies, behaviours_http1, behaviours_http2, behaviours_tls};
use crate::run::{Report, run};

/// Concurrent cases. Few, so that a busy machine does not delay attempts.
const CASES_AT_ONCE: usize = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_http1_behaviour_ends_with_the_expected_outcome() {
    assert_all(behaviours_http1::all()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_behaviour_after_the_status_line_leaves_the_outcome_unchanged() {
    assert_all(behaviours_bodies::all()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_tls_behaviour_ends_with_the_expected_outcome() {
    assert_all(behaviours_tls::all()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_http2_behaviour_ends_with_the_expected_outcome() {
    assert_all(behaviours_http2::all()).await;
}

/// Runs all cases against one sender. `--nocapture` shows a report per case.
async fn assert_all(cases: Vec<Case>) {
    let fixture = Fixture::new();
    let reports: Vec<Report> =
        stream::iter(&cases).map(|case| run(&fixture, case)).buffered(CASES_AT_ONCE).collect().await;
    for report in &reports {
        println!("{report}");
    }
    let faulty: Vec<_> = reports.iter().filter(|report| !report.faults.is_empty()).collect();
    assert!(faulty.is_empty(), "{} of {} cases went wrong, see above", faulty.len(), reports.len());
}
