//! A receiver that answers as it is told and remembers what it saw.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use posthaste_domain::{EventId, Lease, Outcome};
use posthaste_engine::{Clock as _, Sender, TokioClock};

#[derive(Debug, Clone)]
pub(crate) enum Reply {
    Status(u16),
    After(Duration, u16),
    RetryAfter(Duration),
    Hang,
    Panic,
}

pub(crate) struct Receiver {
    clock: TokioClock,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    scripts: BTreeMap<String, VecDeque<Reply>>,
    manners: BTreeMap<String, Reply>,
    requests: Vec<(Duration, EventId, u32)>,
    in_flight: BTreeMap<String, usize>,
    most_in_flight: BTreeMap<String, usize>,
    retries_in_flight: usize,
    most_retries_in_flight: usize,
}

impl Default for Receiver {
    fn default() -> Self {
        Self { clock: TokioClock::start(), state: Mutex::default() }
    }
}

impl Receiver {
    /// What a host answers from now on; 200 at once unless told.
    pub(crate) fn always(&self, host: &str, reply: Reply) {
        self.state.lock().expect("one thread").manners.insert(host.to_owned(), reply);
    }

    /// What a host answers next, one reply per request, before its usual manner.
    pub(crate) fn script(&self, host: &str, replies: impl IntoIterator<Item = Reply>) {
        self.state.lock().expect("one thread").scripts.entry(host.to_owned()).or_default().extend(replies);
    }

    /// When each request came, for which event, and which attempt it was.
    pub(crate) fn requests(&self) -> Vec<(Duration, EventId, u32)> {
        self.state.lock().expect("one thread").requests.clone()
    }

    pub(crate) fn requests_to(&self, host: &str) -> usize {
        self.requests().iter().filter(|(_, event_id, _)| event_id.as_str().starts_with(host)).count()
    }

    pub(crate) fn most_in_flight(&self, host: &str) -> usize {
        self.state.lock().expect("one thread").most_in_flight.get(host).copied().unwrap_or_default()
    }

    pub(crate) fn most_retries_in_flight(&self) -> usize {
        self.state.lock().expect("one thread").most_retries_in_flight
    }

    fn arrives(&self, host: &str, lease: &Lease) -> Reply {
        let mut state = self.state.lock().expect("one thread");
        state.requests.push((self.clock.monotonic(), lease.event_id.clone(), lease.attempt()));
        let in_flight = state.in_flight.entry(host.to_owned()).or_default();
        *in_flight += 1;
        let in_flight = *in_flight;
        let most = state.most_in_flight.entry(host.to_owned()).or_default();
        *most = in_flight.max(*most);
        state.retries_in_flight += usize::from(lease.is_retry());
        state.most_retries_in_flight = state.most_retries_in_flight.max(state.retries_in_flight);
        let next = state.scripts.get_mut(host).and_then(VecDeque::pop_front);
        next.or_else(|| state.manners.get(host).cloned()).unwrap_or(Reply::Status(200))
    }

    fn leaves(&self, host: &str, lease: &Lease) {
        let mut state = self.state.lock().expect("one thread");
        *state.in_flight.get_mut(host).expect("it arrived") -= 1;
        state.retries_in_flight -= usize::from(lease.is_retry());
    }
}

/// Leaves when dropped, as an aborted request does.
struct Visit<'a> {
    receiver: &'a Receiver,
    host: &'a str,
    lease: &'a Lease,
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.receiver.leaves(self.host, self.lease);
    }
}

#[async_trait]
impl Sender for Receiver {
    async fn send(&self, lease: &Lease, _timeout: Duration) -> Outcome {
        let url = lease.destination_url.as_str();
        let host = url.trim_start_matches("https://").split('.').next().expect("a host");
        let reply = self.arrives(host, lease);
        let _visit = Visit { receiver: self, host, lease };
        match reply {
            Reply::Status(status) => Outcome::response(status, None, b"as told"),
            Reply::After(wait, status) => {
                self.clock.sleep(wait).await;
                Outcome::response(status, None, b"as told")
            }
            Reply::RetryAfter(wait) => Outcome::response(503, Some(wait), b"later"),
            Reply::Hang => std::future::pending().await,
            // Unwinds without a message on the terminal.
            Reply::Panic => std::panic::resume_unwind(Box::new("as told")),
        }
    }
}
