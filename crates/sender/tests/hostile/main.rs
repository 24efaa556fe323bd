//! Receivers that misbehave, on real sockets: whatever one does, an attempt ends in time, as one outcome, after one
//! request, and the sender goes on as if nothing had happened.
//!
//! The tables of what receivers do are in `stage/behaviours_….rs`; what takes more than one request is told in
//! [`connections`] and [`etiquette`].
#![expect(clippy::unwrap_used, reason = "what only sets a test up says enough by failing it")]

mod connections;
mod etiquette;
mod run;
mod stage;

use futures_util::{StreamExt as _, stream};

use crate::run::{Report, run};
use crate::stage::script::Case;
use crate::stage::world::World;
use crate::stage::{behaviours_bodies, behaviours_http1, behaviours_http2, behaviours_tls};

/// So few that the machine itself makes no attempt late.
const CASES_AT_ONCE: usize = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_a_receiver_does_over_http1_the_attempt_ends_as_it_should() {
    assert_all(behaviours_http1::all()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_a_receiver_does_after_its_status_the_status_counts_and_nothing_leaks() {
    assert_all(behaviours_bodies::all()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_a_receiver_does_to_tls_the_attempt_ends_as_it_should() {
    assert_all(behaviours_tls::all()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_a_receiver_does_over_http2_the_attempt_ends_as_it_should() {
    assert_all(behaviours_http2::all()).await;
}

/// All cases meet one sender. `--nocapture` shows how each went.
async fn assert_all(cases: Vec<Case>) {
    let world = World::new();
    let reports: Vec<Report> =
        stream::iter(&cases).map(|case| run(&world, case)).buffered(CASES_AT_ONCE).collect().await;
    for report in &reports {
        println!("{report}");
    }
    let faulty: Vec<_> = reports.iter().filter(|report| !report.faults.is_empty()).collect();
    assert!(faulty.is_empty(), "{} of {} cases went wrong, see above", faulty.len(), reports.len());
}
