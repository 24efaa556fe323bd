//! The observer of a crowd simulation: records every request outside the engine, and checks P15.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use posthaste_domain::{EventId, Outcome};
use tokio::sync::Notify;

use super::{CrowdBehavior, CrowdReport, CrowdScenario};
use crate::check::Violation;
use crate::time::WorldClock;

/// Longest time from the enqueue of an event for a prompt receiver to its request. A claim that is under way, the next
/// claim and the delays of the store take less.
const PROMPT_LAG_MAX: Duration = Duration::from_millis(100);
/// Timeouts in a row after which a receiver's window must have shrunk to its start.
const SILENT_AFTER: usize = 12;

/// Records the requests of the engine and keeps the first violation.
pub(super) struct CrowdObserver {
    clock: WorldClock,
    scenario: CrowdScenario,
    state: Mutex<State>,
    violated: Notify,
}

#[derive(Default)]
struct State {
    /// Whether the receivers of the crowd behave as a crowd now. Before and after they answer promptly.
    is_crowded: bool,
    /// When each event for a prompt receiver without a request was enqueued, or when the engine must have seen that the crowd
    /// has stopped answering.
    waiting: BTreeMap<EventId, Duration>,
    /// Before this time, the engine cannot know that the crowd has stopped answering.
    stall_seen_at: Duration,
    /// Events for the crowd without a request.
    crowd_waiting: BTreeSet<EventId>,
    /// Destinations of the crowd that have got a request.
    reached: BTreeSet<String>,
    by_destination: BTreeMap<String, Flow>,
    by_host: BTreeMap<String, Flow>,
    in_flight: usize,
    /// Numbers of requests by the time of their start.
    started_at: BTreeMap<Duration, usize>,
    in_flight_max: usize,
    prompt_lag_max: Duration,
    requests: u64,
    violation: Option<Violation>,
}

/// The requests and answers of one destination, or of one host.
#[derive(Debug, Default, Clone, Copy)]
struct Flow {
    in_flight: usize,
    timeouts_in_a_row: usize,
    /// Answers since the receiver was last silent. None if it never was.
    answers_since_silence: Option<usize>,
}

impl Flow {
    /// Returns how many requests a receiver that was silent may have in flight: every answer adds one to its window.
    fn ramp_max(&self, window_start: usize) -> Option<usize> {
        self.answers_since_silence.map(|answers| window_start + answers)
    }

    fn record(&mut self, outcome: &Outcome) {
        self.in_flight -= 1;
        if outcome.http_status().is_some() {
            self.timeouts_in_a_row = 0;
            self.answers_since_silence = self.answers_since_silence.map(|answers| answers + 1);
        } else {
            self.timeouts_in_a_row += 1;
            if self.timeouts_in_a_row >= SILENT_AFTER {
                self.answers_since_silence = Some(0);
            }
        }
    }
}

/// One request in flight.
pub(super) struct ObservedRequest {
    observer: Arc<CrowdObserver>,
    url: String,
    started_at: Duration,
}

impl ObservedRequest {
    pub(super) fn end(self, outcome: &Outcome) {
        let mut state = self.observer.state();
        state.in_flight -= 1;
        if let Some(started) = state.started_at.get_mut(&self.started_at) {
            *started -= 1;
        }
        for flow in state.flows(&self.url) {
            flow.record(outcome);
        }
    }
}

impl State {
    /// Returns the flows of a URL's destination and of its host.
    fn flows(&mut self, url: &str) -> [&mut Flow; 2] {
        let destination = self.by_destination.entry(url.to_owned()).or_default();
        [destination, self.by_host.entry(host_of(url).to_owned()).or_default()]
    }
}

impl CrowdObserver {
    pub(super) fn new(clock: WorldClock, scenario: CrowdScenario) -> Self {
        Self { clock, scenario, state: Mutex::default(), violated: Notify::new() }
    }

    /// Returns how a receiver of the crowd behaves now. None answers promptly.
    pub(super) fn behavior_of(&self, url: &str) -> Option<CrowdBehavior> {
        (!is_prompt(url) && self.state().is_crowded).then_some(self.scenario.crowd.behavior)
    }

    pub(super) fn record_enqueued(&self, event_id: &EventId, url: &str) {
        if is_prompt(url) {
            let mut state = self.state();
            let from = self.clock.elapsed().max(state.stall_seen_at);
            state.waiting.insert(event_id.clone(), from);
        } else {
            self.state().crowd_waiting.insert(event_id.clone());
        }
    }

    /// Counts a request, and checks its lag and the limits.
    pub(super) fn begin_request(self: &Arc<Self>, event_id: &EventId, url: &str) -> ObservedRequest {
        let now = self.clock.elapsed();
        let mut state = self.state();
        state.requests += 1;
        state.in_flight += 1;
        *state.started_at.entry(now).or_default() += 1;
        state.in_flight_max = state.in_flight_max.max(state.in_flight);
        if let Some(enqueued_at) = state.waiting.remove(event_id) {
            state.prompt_lag_max = state.prompt_lag_max.max(now.saturating_sub(enqueued_at));
        }
        if state.crowd_waiting.remove(event_id) {
            state.reached.insert(url.to_owned());
        }
        for flow in state.flows(url) {
            flow.in_flight += 1;
        }
        let violated = self.limits_violated(&mut state, url, now);
        drop(state);
        if let Some(detail) = violated {
            self.report_violation(detail);
        }
        ObservedRequest { observer: Arc::clone(self), url: url.to_owned(), started_at: now }
    }

    /// Describes the limit that the requests in flight exceed, if there is one.
    fn limits_violated(&self, state: &mut State, url: &str, now: Duration) -> Option<String> {
        let settings = &self.scenario.settings;
        let total = state.in_flight;
        state.started_at.retain(|_, requests| *requests > 0);
        // Of the requests that have been in flight for long, those beyond three quarters of the slots do not count.
        let old =
            state.started_at.range(..=now.saturating_sub(settings.slow_after)).map(|(_, requests)| requests);
        let uncounted = old.sum::<usize>().saturating_sub((settings.concurrency * 3).div_ceil(4));
        let [destination, host] = state.flows(url).map(|flow| *flow);
        if total > settings.concurrency + uncounted.min(settings.concurrency / 4)
            || destination.in_flight > settings.per_destination
            || host.in_flight > settings.per_host()
        {
            let (to_url, to_host) = (destination.in_flight, host.in_flight);
            return Some(format!("{total} requests in flight, {to_url} to {url} and {to_host} to its host"));
        }
        for (name, flow) in [(url, destination), (host_of(url), host)] {
            if flow.ramp_max(settings.window_start).is_some_and(|ramp_max| flow.in_flight > ramp_max) {
                return Some(format!("{name} was silent and has {flow:?}"));
            }
        }
        None
    }

    /// An event for a prompt receiver is sent at once, whatever the crowd does.
    pub(super) fn check_lag(&self) {
        let now = self.clock.elapsed();
        let state = self.state();
        let waiting = state.waiting.values().map(|enqueued_at| now.saturating_sub(*enqueued_at)).max();
        let lag_max = state.prompt_lag_max.max(waiting.unwrap_or_default());
        drop(state);
        if lag_max > PROMPT_LAG_MAX {
            self.report_violation(format!("an event for a prompt receiver waited for {lag_max:?}"));
        }
    }

    /// Every destination has got its turn.
    pub(super) fn check_turns(&self) {
        let (reached, all) = (self.state().reached.len(), self.scenario.destinations());
        if reached < all {
            self.report_violation(format!("{reached} of {all} destinations got a request in time"));
        }
    }

    /// Receivers that answer again get all their events.
    pub(super) fn check_recovered(&self) {
        let waiting = self.state().crowd_waiting.len();
        if waiting > 0 {
            self.report_violation(format!("{waiting} events wait although their receivers answer again"));
        }
    }

    /// From now on, the receivers of the crowd hang, crawl or fail.
    pub(super) fn begin_crowd(&self) {
        let mut state = self.state();
        state.is_crowded = true;
        state.stall_seen_at = self.clock.elapsed() + self.scenario.stall_max();
        state.reached.clear();
    }

    /// From now on, the receivers of the crowd answer.
    pub(super) fn end_crowd(&self) {
        self.state().is_crowded = false;
    }

    fn report_violation(&self, detail: String) {
        let at = self.clock.elapsed();
        self.state().violation.get_or_insert(Violation { property: "P15", at, detail });
        self.violated.notify_one();
    }

    /// Resolves after the first violation.
    pub(super) async fn violated(&self) {
        self.violated.notified().await;
    }

    pub(super) fn report(&self) -> CrowdReport {
        let state = self.state();
        CrowdReport {
            violation: state.violation.clone(),
            prompt_lag_max: state.prompt_lag_max,
            in_flight_max: state.in_flight_max,
            requests: state.requests,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_prompt(url: &str) -> bool {
    url.starts_with("https://prompt-")
}

fn host_of(url: &str) -> &str {
    url.split('/').nth(2).expect("an absolute URL has a host")
}
