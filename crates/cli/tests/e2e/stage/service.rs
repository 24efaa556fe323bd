//! A process that serves, and what can be asked of it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Deref;

use serde_json::Value;

use super::event::{Event, bodies};
use super::follower::Follower;
use super::http::{Answer, ask};
use super::output::PAYLOAD_MARK;
use super::process::{Ended, Process};
use super::watched::until;

pub(crate) const EVENTS: &str = "/v1/webhook-outbox/events";
pub(crate) const DLQ: &str = "/v1/webhook-outbox/dlq";
const OVERVIEW: &str = "/v1/webhook-outbox/overview";

pub(crate) struct Service {
    process: Process,
    pub(crate) address: SocketAddr,
}

impl Deref for Service {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.process
    }
}

impl Service {
    /// Ready once it has said where it listens.
    #[track_caller]
    pub(super) fn start(process: Process) -> Self {
        let line = process.first_line();
        let (_, address) = line.split_once(" listens on http://").unwrap();
        Self { address: address.split('/').next().unwrap().parse().unwrap(), process }
    }

    #[track_caller]
    pub(crate) fn stop(self) -> Ended {
        self.process.stop()
    }

    pub(crate) fn kill(self) -> Ended {
        self.process.kill()
    }

    /// Waits for it to end by itself.
    #[track_caller]
    pub(crate) fn end(self) -> Ended {
        self.process.end()
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.process.is_running()
    }

    #[track_caller]
    pub(crate) fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let answer = ask(self.address, method, path, headers, body).unwrap();
        assert!(
            !answer.body.contains(PAYLOAD_MARK),
            "{method} {path} answered with a payload: {}",
            answer.body
        );
        answer
    }

    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], "")
    }

    #[track_caller]
    pub(crate) fn post(&self, path: &str, body: &str) -> Answer {
        self.ask("POST", path, &[("content-type", "application/json")], body)
    }

    /// Enqueues one event and returns its id.
    #[track_caller]
    pub(crate) fn enqueue(&self, event: &Event) -> String {
        let accepted = self.post(EVENTS, &event.body()).json(202);
        assert_eq!(accepted["delivery_status"], "pending");
        text(&accepted["event_id"])
    }

    /// Enqueues many in one request and returns their ids, in order.
    #[track_caller]
    pub(crate) fn enqueue_all(&self, events: &[Event]) -> Vec<String> {
        let accepted = self.post(EVENTS, &bodies(events)).json(202);
        accepted["events"].as_array().unwrap().iter().map(|event| text(&event["event_id"])).collect()
    }

    #[track_caller]
    pub(crate) fn event(&self, event_id: &str) -> Value {
        self.get(&format!("{EVENTS}/{event_id}")).json(200)
    }

    /// The event as it is when this holds of it.
    #[track_caller]
    pub(crate) fn event_when(&self, event_id: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        until(&format!("{event_id} {what}"), || Some(self.event(event_id)).filter(&holds))
    }

    #[track_caller]
    pub(crate) fn delivered(&self, event_id: &str) -> Value {
        self.event_when(event_id, "is delivered", |event| event["delivery_status"] == "delivered")
    }

    #[track_caller]
    pub(crate) fn failed(&self, event_id: &str) -> Value {
        self.event_when(event_id, "has failed", |event| event["delivery_status"] == "failed")
    }

    /// The event when so many of its attempts have been recorded.
    #[track_caller]
    pub(crate) fn attempted(&self, event_id: &str, times: usize) -> Value {
        let what = format!("was attempted {times} times");
        self.event_when(event_id, &what, |event| event["history"].as_array().unwrap().len() >= times)
    }

    #[track_caller]
    pub(crate) fn requeue(&self, event_id: &str) -> Answer {
        self.ask("POST", &format!("{DLQ}/{event_id}/requeue"), &[], "")
    }

    #[track_caller]
    pub(crate) fn cancel(&self, event_id: &str, body: &str) -> Answer {
        self.post(&format!("{EVENTS}/{event_id}/cancel"), body)
    }

    #[track_caller]
    pub(crate) fn overview(&self) -> Value {
        self.get(OVERVIEW).json(200)
    }

    /// Samples of `/metrics`, by name and labels.
    #[track_caller]
    pub(crate) fn metrics(&self) -> BTreeMap<String, f64> {
        let scraped = self.get("/metrics");
        assert_eq!(scraped.status, 200, "{}", scraped.body);
        let samples = scraped.body.lines().filter(|line| !line.starts_with('#'));
        samples
            .map(|line| {
                let (name, value) = line.rsplit_once(' ').unwrap();
                (name.to_owned(), value.parse().unwrap())
            })
            .collect()
    }

    /// The samples when this holds of them: what is counted from the store may be a second old.
    #[track_caller]
    pub(crate) fn metrics_when(
        &self,
        what: &str,
        holds: impl Fn(&BTreeMap<String, f64>) -> bool,
    ) -> BTreeMap<String, f64> {
        until(what, || Some(self.metrics()).filter(&holds))
    }

    /// Follows the topic, from now on or from what was seen last.
    #[track_caller]
    pub(crate) fn follow(&self, last_event_id: Option<&str>) -> Follower {
        Follower::connect(self.address, last_event_id)
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}
