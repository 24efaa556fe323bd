//! Runs one case against the sender and reports its faults.

use std::fmt;
use std::time::Duration;

use posthaste_domain::Outcome;

use crate::harness::fixture::Fixture;
use crate::harness::script::Case;
use crate::harness::time::{measure_stalls, now, wait, wait_until};
use crate::harness::within::within;

/// How long after its deadline an outcome may arrive on a machine that does not stall.
const SLACK: Duration = Duration::from_millis(500);

/// How long after its deadline the test waits for an outcome.
const HANG: Duration = Duration::from_secs(30);

/// Time for a receiver's last step, such as a reset, to reach the sender.
const PROPAGATION_TIME: Duration = Duration::from_millis(200);

/// A case that goes wrong while the machine stalls for longer is repeated.
const STALL_MAX: Duration = Duration::from_millis(100);

/// How often a case may go wrong before it counts as faulty.
const TRIES_MAX: usize = 3;

/// The result of one case.
pub(crate) struct Report {
    name: &'static str,
    /// `None` if the attempt did not end in time.
    outcome: Option<Outcome>,
    elapsed: Duration,
    pub(crate) faults: Vec<String>,
}

/// Runs a case, and runs it again if it goes wrong while the machine stalls. A stall can use up a deadline before the request is
/// sent.
pub(crate) async fn run(fixture: &Fixture, case: &Case) -> Report {
    let mut tries = 1;
    loop {
        let (report, stalled) = measure_stalls(run_once(fixture, case)).await;
        if report.faults.is_empty() || stalled <= STALL_MAX || tries == TRIES_MAX {
            return report;
        }
        println!("{report}\n    repeated, because the machine stalled for {stalled:?}");
        tries += 1;
    }
}

/// Sends one attempt to the receiver while it misbehaves, and another when it behaves again.
async fn run_once(fixture: &Fixture, case: &Case) -> Report {
    let receiver = fixture.receiver(case.over, case.steps.clone()).await;
    let log = &receiver.log;
    let started = now();
    let attempt = fixture.send(&receiver.url, case.payload_bytes, case.deadline);
    let (outcome, stalled) = measure_stalls(within(case.deadline + HANG, attempt)).await;
    let Some(outcome) = outcome else {
        let faults = vec!["the attempt did not end".to_owned()];
        return Report { name: case.name, outcome: None, elapsed: now() - started, faults };
    };
    let elapsed = now() - started;

    let mut faults = Vec::new();
    if !case.expected.matches(&outcome) {
        faults.push(format!("the outcome should be {:?}", case.expected));
    }
    if elapsed > case.deadline + SLACK + stalled {
        faults.push(format!("took {elapsed:?} with a deadline of {:?}", case.deadline));
    }
    wait_until(|| log.requests() >= *case.requests.end()).await;
    let (connections, requests) = (log.connections(), log.requests());
    if connections != 1 {
        faults.push(format!("dialled {connections} times"));
    }
    if !case.requests.contains(&requests) {
        faults.push(format!("the receiver saw {requests} requests"));
    }
    faults.extend(log.heads().iter().flat_map(|head| faults_of_head(head)));
    if case.floods() && !wait_until(|| log.script_ended()).await {
        faults.push("the sender did not close the connection".to_owned());
    }
    if case.ends() {
        wait_until(|| log.script_played()).await;
    }
    wait(PROPAGATION_TIME).await;
    let next = fixture.send_to(&receiver).await;
    let expected_body = format!("response to request {}", requests + 1);
    if next.http_status() != Some(200) || next.excerpt().as_str() != expected_body {
        faults.push(format!("the next request ended as {}", OutcomeLine(&next)));
    }
    if log.requests() != requests + 1 {
        faults.push(format!("the receiver saw the next request {} times", log.requests() - requests));
    }
    Report { name: case.name, outcome: Some(outcome), elapsed, faults }
}

/// Lists headers that no request may have, such as those that invite compression or interim responses.
fn faults_of_head(head: &str) -> Vec<String> {
    let forbidden = ["accept-encoding:", "te:", "expect:", "upgrade:", "cookie:"];
    let present = forbidden.into_iter().filter(|name| head.lines().any(|line| line.starts_with(name)));
    present.map(|name| format!("the request has the header {name}")).collect()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:60} {:4} ms  ", self.name, self.elapsed.as_millis())?;
        self.outcome.iter().try_for_each(|outcome| OutcomeLine(outcome).fmt(f))?;
        self.faults.iter().try_for_each(|fault| write!(f, "\n    FAULT: {fault}"))
    }
}

/// Formats an outcome on one line.
struct OutcomeLine<'a>(&'a Outcome);

impl fmt::Display for OutcomeLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.last_error() {
            Some(error) => f.write_str(&error),
            None => write!(f, "HTTP {}: {}", self.0.http_status().unwrap_or_default(), self.0.excerpt()),
        }
    }
}
