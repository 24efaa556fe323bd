//! Callbacks of the observer, and the health of a worker.

use std::sync::{Arc, Mutex};

use posthaste_domain::{ApplicationRef, DeliveryStatus, DisableReason, LeaseTerms};
use posthaste_engine::{AttemptEvent, Engine, Observer, Ports, Runtimes};
use posthaste_store::SettleResult;

use crate::fixture::{App, Call, Fixture, Reply, secs, settings};

/// An observer that records its calls as text.
#[derive(Default)]
struct RecordingObserver(Mutex<Vec<String>>);

impl RecordingObserver {
    fn record(&self, call: String) {
        self.0.lock().expect("one thread").push(call);
    }

    fn calls(&self) -> Vec<String> {
        self.0.lock().expect("one thread").clone()
    }
}

impl Observer for RecordingObserver {
    fn on_attempt(&self, attempt: &AttemptEvent<'_>) {
        let written = attempt.settled.is_some_and(SettleResult::is_written);
        let late = attempt.lag() >= secs(1);
        let app = attempt.app.map_or_else(String::new, |app| format!(" of {app}"));
        self.record(format!(
            "{} {} written={written} late={late}{app}",
            attempt.lease.event_id,
            attempt.transition.label()
        ));
    }

    fn on_lease_lost(&self) {
        self.record("lease lost".to_owned());
    }

    fn on_abandoned(&self, events: usize) {
        self.record(format!("{events} abandoned"));
    }

    fn on_expired(&self, events: usize) {
        self.record(format!("{events} expired"));
    }

    fn on_endpoint_disabled(&self, reason: DisableReason) {
        self.record(format!("endpoint disabled: {}", reason.as_str()));
    }
}

fn observed_ports(fixture: &Fixture) -> (Arc<RecordingObserver>, Ports) {
    let observer = Arc::new(RecordingObserver::default());
    (Arc::clone(&observer), Ports { observer, ..fixture.ports() })
}

#[tokio::test(start_paused = true)]
async fn observer_receives_every_attempt_with_its_result() {
    let fixture = Fixture::new();
    fixture.enqueue("flaky", 1).await;
    fixture.receiver.script("flaky", [Reply::Status(500), Reply::Status(200)]);
    fixture.advance(secs(5)).await;
    let (observer, ports) = observed_ports(&fixture);
    let _engine = Engine::start(settings(|_| {}), ports, &Runtimes::current()).expect("valid settings");
    fixture.wait_until_all(DeliveryStatus::Delivered).await;
    fixture.wait_until("two callbacks were called", |_| observer.calls().len() == 2).await;
    let [first, second] = &observer.calls()[..] else { panic!("{:?}", observer.calls()) };
    assert_eq!(first, "flaky-0 retried written=true late=true");
    assert!(second.starts_with("flaky-0 delivered written=true"), "{second}");
}

#[tokio::test(start_paused = true)]
async fn observer_receives_the_application_of_an_attempt_and_the_disabling_of_an_endpoint() {
    let fixture = Fixture::new();
    let app = App::create(&fixture).await;
    app.add_endpoint(&fixture, "gone", 1).await;
    fixture.receiver.always_reply("gone", Reply::Status(410));
    app.publish(&fixture).await;
    let (observer, ports) = observed_ports(&fixture);
    let _engine = Engine::start(settings(|_| {}), ports, &Runtimes::current()).expect("valid settings");
    fixture.wait_until("two callbacks were called", |_| observer.calls().len() == 2).await;
    let [attempt, disabled] = &observer.calls()[..] else { panic!("{:?}", observer.calls()) };
    let ApplicationRef::Id(id) = app.scope().app else { panic!("the fixture names it by its id") };
    assert!(attempt.contains(" gone written=true") && attempt.ends_with(&format!(" of {id}")), "{attempt}");
    assert_eq!(disabled, "endpoint disabled: gone");
}

#[tokio::test(start_paused = true)]
async fn observer_receives_lost_leases_and_abandoned_events() {
    let fixture = Fixture::new();
    fixture.enqueue("slow", 1).await;
    fixture.receiver.always_reply("slow", Reply::After(secs(20), 200));
    let (observer, ports) = observed_ports(&fixture);
    let short = settings(|settings| {
        settings.lease = LeaseTerms::new(secs(3)).expect("long enough");
        settings.abandon_after = 1;
    });
    let _engine = Engine::start(short, ports, &Runtimes::current()).expect("valid settings");
    fixture.wait_until("the request is sent", |_| fixture.receiver.requests_to("slow") == 1).await;
    fixture.test_store().fail(&[Call::Renew]);
    fixture.wait_until("two callbacks were called", |_| observer.calls().len() >= 2).await;
    let mut calls = observer.calls();
    calls.sort();
    assert_eq!(calls[..2], ["1 abandoned", "lease lost"], "{calls:?}");
}

#[tokio::test(start_paused = true)]
async fn observer_receives_expired_events() {
    let fixture = Fixture::new();
    fixture.enqueue("up", 3).await;
    fixture.test_store().fail(&[Call::Claim]);
    let (observer, ports) = observed_ports(&fixture);
    let settings = settings(|settings| settings.expire_after = Some(secs(60)));
    let _engine = Engine::start(settings, ports, &Runtimes::current()).expect("valid settings");
    fixture.wait_until_all(DeliveryStatus::Failed).await;
    fixture.advance(secs(120)).await;
    assert_eq!(observer.calls(), ["3 expired"]);
}

#[tokio::test(start_paused = true)]
async fn health_reports_deliveries_in_flight_and_time_since_the_last_claim() {
    let fixture = Fixture::new();
    fixture.receiver.always_reply("slow", Reply::After(secs(20), 200));
    let engine = fixture.start(|_| {});
    let health = engine.health();
    fixture.enqueue("slow", 3).await;
    fixture.wait_until("the requests are sent", |_| fixture.receiver.requests_to("slow") == 3).await;
    assert_eq!((health.in_flight(), health.circuits_open()), (3, 0));
    assert!(health.since_claim().expect("the worker exists") <= secs(1));
    fixture.test_store().fail(&[Call::Claim]);
    fixture.advance(secs(60)).await;
    assert!(health.since_claim().expect("the worker exists") >= secs(50));
    drop(engine);
    fixture.wait_until("the worker no longer exists", |_| health.since_claim().is_none()).await;
    assert_eq!(health.in_flight(), 0);
}
