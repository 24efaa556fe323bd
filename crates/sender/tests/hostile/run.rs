//! Tries one behaviour on the sender, and says what is wrong with how that went.

use std::fmt;
use std::time::Duration;

use posthaste_domain::Outcome;

use crate::stage::script::Case;
use crate::stage::time::{becomes, now, wait, with_stalls};
use crate::stage::within::within;
use crate::stage::world::World;

/// How late an outcome may be on a machine that does not stall.
const SLACK: Duration = Duration::from_millis(500);

/// How late it is waited for at all.
const HANG: Duration = Duration::from_secs(5);

/// What a receiver does last, such as closing, takes this long to be noticed at the sender's end.
const A_MOMENT: Duration = Duration::from_millis(200);

/// How one case went.
pub(crate) struct Report {
    name: &'static str,
    /// None if there was none in time.
    outcome: Option<Outcome>,
    took: Duration,
    pub(crate) faults: Vec<String>,
}

/// One attempt at the receiver while it misbehaves, and one when it no longer does.
pub(crate) async fn run(world: &World, case: &Case) -> Report {
    let receiver = world.receiver(case.over, case.steps.clone()).await;
    let seen = &receiver.seen;
    let started = now();
    let attempt = world.send(&receiver.url, case.payload_bytes, case.deadline);
    let (outcome, stalled) = with_stalls(within(case.deadline + HANG, attempt)).await;
    let Some(outcome) = outcome else {
        let faults = vec!["did not end".to_owned()];
        return Report { name: case.name, outcome: None, took: now() - started, faults };
    };
    let took = now() - started;

    let mut faults = Vec::new();
    if !case.ends.fits(&outcome) {
        faults.push(format!("should end as {:?}", case.ends));
    }
    if took > case.deadline + SLACK + stalled {
        faults.push(format!("took {took:?} with a deadline of {:?}", case.deadline));
    }
    becomes(|| seen.requests() >= *case.requests.end()).await;
    let (connections, requests) = (seen.connections(), seen.requests());
    if connections != 1 {
        faults.push(format!("dialled {connections} times"));
    }
    if !case.requests.contains(&requests) {
        faults.push(format!("the receiver saw {requests} requests"));
    }
    faults.extend(seen.heads().iter().flat_map(|head| faults_of_head(head)));
    if case.floods() && !becomes(|| seen.script_is_over()).await {
        faults.push("the sender did not hang up".to_owned());
    }
    wait(A_MOMENT).await;
    let next = world.send_to(&receiver).await;
    let answer = format!("answer to request {}", requests + 1);
    if next.http_status() != Some(200) || next.excerpt().as_str() != answer {
        faults.push(format!("the next request ended as {}", Shown(&next)));
    }
    if seen.requests() != requests + 1 {
        faults.push(format!("the receiver saw the next request {} times", seen.requests() - requests));
    }
    Report { name: case.name, outcome: Some(outcome), took, faults }
}

/// What no request may ask for: something to unpack, or leave to go on.
fn faults_of_head(head: &str) -> Vec<String> {
    let asks = ["accept-encoding:", "te:", "expect:", "upgrade:", "cookie:"];
    let asked = asks.into_iter().filter(|name| head.lines().any(|line| line.starts_with(name)));
    asked.map(|name| format!("the request says {name}")).collect()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:60} {:4} ms  ", self.name, self.took.as_millis())?;
        self.outcome.iter().try_for_each(|outcome| Shown(outcome).fmt(f))?;
        self.faults.iter().try_for_each(|fault| write!(f, "\n    FAULT: {fault}"))
    }
}

/// An outcome on one line.
struct Shown<'a>(&'a Outcome);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.last_error() {
            Some(error) => f.write_str(&error),
            None => write!(f, "HTTP {}: {}", self.0.http_status().unwrap_or_default(), self.0.excerpt()),
        }
    }
}
