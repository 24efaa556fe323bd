//! A running `posthaste serve`, and requests to its API.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Deref;

use serde_json::Value;

use super::event::{Event, batch_request_body};
use super::http::{HttpResponse, send_request};
use super::output::PAYLOAD_MARKER;
use super::process::{Process, ProcessExit};
use super::subscriber::Subscriber;
use super::wait::wait_until;

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
    /// Waits until the process has printed its address.
    #[track_caller]
    pub(crate) fn start(process: Process) -> Self {
        let line = process.wait_for_first_line();
        let (_, address) = line.split_once(" listens on http://").unwrap();
        Self { address: address.split('/').next().unwrap().parse().unwrap(), process }
    }

    #[track_caller]
    pub(crate) fn stop(self) -> ProcessExit {
        self.process.stop()
    }

    #[track_caller]
    pub(crate) fn kill(self) -> ProcessExit {
        self.process.kill()
    }

    #[track_caller]
    pub(crate) fn wait_for_exit(self) -> ProcessExit {
        self.process.wait_for_exit()
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.process.is_running()
    }

    /// Sends a request. The response must contain no payload.
    #[track_caller]
    pub(crate) fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> HttpResponse {
        let response = send_request(self.address, method, path, headers, body);
        let response = response.unwrap_or_else(|error| panic!("no response to {method} {path}: {error}"));
        assert!(
            !response.body.contains(PAYLOAD_MARKER),
            "the response to {method} {path} contains a payload: {}",
            response.body
        );
        response
    }

    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> HttpResponse {
        self.request("GET", path, &[], "")
    }

    #[track_caller]
    pub(crate) fn post(&self, path: &str, body: &str) -> HttpResponse {
        self.request("POST", path, &[("content-type", "application/json")], body)
    }

    /// Enqueues an event and returns its id.
    #[track_caller]
    pub(crate) fn enqueue(&self, event: &Event) -> String {
        let accepted = self.post(EVENTS, &event.request_body()).expect_json(202);
        assert_eq!(accepted["delivery_status"], "pending");
        text(&accepted["event_id"])
    }

    /// Enqueues several events in one request and returns their ids in the same order.
    #[track_caller]
    pub(crate) fn enqueue_all(&self, events: &[Event]) -> Vec<String> {
        let accepted = self.post(EVENTS, &batch_request_body(events)).expect_json(202);
        accepted["events"].as_array().unwrap().iter().map(|event| text(&event["event_id"])).collect()
    }

    #[track_caller]
    pub(crate) fn event(&self, event_id: &str) -> Value {
        self.get(&format!("{EVENTS}/{event_id}")).expect_json(200)
    }

    /// Waits until the event meets a condition, and returns it.
    #[track_caller]
    pub(crate) fn wait_for_event(
        &self,
        event_id: &str,
        condition: &str,
        is_met: impl Fn(&Value) -> bool,
    ) -> Value {
        wait_until(&format!("{event_id} {condition}"), || Some(self.event(event_id)).filter(&is_met))
    }

    #[track_caller]
    pub(crate) fn wait_until_delivered(&self, event_id: &str) -> Value {
        self.wait_for_event(event_id, "is delivered", |event| event["delivery_status"] == "delivered")
    }

    #[track_caller]
    pub(crate) fn wait_until_failed(&self, event_id: &str) -> Value {
        self.wait_for_event(event_id, "has failed", |event| event["delivery_status"] == "failed")
    }

    /// Waits until the event has at least `count` recorded attempts.
    #[track_caller]
    pub(crate) fn wait_for_attempts(&self, event_id: &str, count: usize) -> Value {
        let condition = format!("has {count} recorded attempts");
        self.wait_for_event(event_id, &condition, |event| event["history"].as_array().unwrap().len() >= count)
    }

    #[track_caller]
    pub(crate) fn requeue(&self, event_id: &str) -> HttpResponse {
        self.request("POST", &format!("{DLQ}/{event_id}/requeue"), &[], "")
    }

    #[track_caller]
    pub(crate) fn cancel(&self, event_id: &str, body: &str) -> HttpResponse {
        self.post(&format!("{EVENTS}/{event_id}/cancel"), body)
    }

    #[track_caller]
    pub(crate) fn overview(&self) -> Value {
        self.get(OVERVIEW).expect_json(200)
    }

    /// Returns the samples of `/metrics` by name and labels.
    #[track_caller]
    pub(crate) fn metrics(&self) -> BTreeMap<String, f64> {
        let response = self.get("/metrics");
        assert_eq!(response.status, 200, "{}", response.body);
        let samples = response.body.lines().filter(|line| !line.starts_with('#'));
        samples
            .map(|line| {
                let (name, value) = line.rsplit_once(' ').unwrap();
                (name.to_owned(), value.parse().unwrap())
            })
            .collect()
    }

    /// Waits until the metrics meet a condition, and returns them. Counts from the store may be a second old.
    #[track_caller]
    pub(crate) fn wait_for_metrics(
        &self,
        condition: &str,
        is_met: impl Fn(&BTreeMap<String, f64>) -> bool,
    ) -> BTreeMap<String, f64> {
        wait_until(condition, || Some(self.metrics()).filter(&is_met))
    }

    /// Subscribes to the notice stream, from now on or after `last_event_id`.
    #[track_caller]
    pub(crate) fn subscribe(&self, last_event_id: Option<&str>) -> Subscriber {
        Subscriber::connect(self.address, last_event_id, None)
    }

    /// Subscribes to the notice stream with an API key, from now on.
    #[track_caller]
    pub(crate) fn subscribe_with_key(&self, key: &str) -> Subscriber {
        Subscriber::connect(self.address, None, Some(key))
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}
