//! What an observer hears, and what a health tells.

use std::sync::{Arc, Mutex};

use posthaste_domain::{DeliveryStatus, LeaseTerms};
use posthaste_engine::{AttemptEvent, Engine, Observer, Ports, Runtimes};
use posthaste_store::SettleResult;

use crate::stage::{Call, Reply, Stage, secs, settings};

#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl Heard {
    fn note(&self, what: String) {
        self.0.lock().expect("one thread").push(what);
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().expect("one thread").clone()
    }
}

impl Observer for Heard {
    fn on_attempt(&self, seen: &AttemptEvent<'_>) {
        let written = seen.settled.is_some_and(SettleResult::is_written);
        let late = seen.lag() >= secs(1);
        self.note(format!(
            "{} {} written={written} late={late}",
            seen.lease.event_id,
            seen.transition.label()
        ));
    }

    fn on_lease_lost(&self) {
        self.note("lease lost".to_owned());
    }

    fn on_abandoned(&self, events: usize) {
        self.note(format!("{events} abandoned"));
    }
}

fn watched(stage: &Stage) -> (Arc<Heard>, Ports) {
    let heard = Arc::new(Heard::default());
    (Arc::clone(&heard), Ports { observer: heard, ..stage.ports() })
}

#[tokio::test(start_paused = true)]
async fn every_attempt_is_heard_of_with_what_became_of_it() {
    let stage = Stage::set();
    stage.enqueue("flaky", 1).await;
    stage.receiver.script("flaky", [Reply::Status(500), Reply::Status(200)]);
    stage.pass(secs(5)).await;
    let (heard, ports) = watched(&stage);
    let _engine = Engine::start(settings(|_| {}), ports, &Runtimes::current()).expect("valid settings");
    stage.until_all(DeliveryStatus::Delivered).await;
    stage.until("both are heard of", |_| heard.all().len() == 2).await;
    let [first, second] = &heard.all()[..] else { panic!("{:?}", heard.all()) };
    assert_eq!(first, "flaky-0 retried written=true late=true");
    assert!(second.starts_with("flaky-0 delivered written=true"), "{second}");
}

#[tokio::test(start_paused = true)]
async fn lost_leases_and_abandoned_events_are_heard_of() {
    let stage = Stage::set();
    stage.enqueue("slow", 1).await;
    stage.receiver.always("slow", Reply::After(secs(20), 200));
    let (heard, ports) = watched(&stage);
    let short = settings(|settings| {
        settings.lease = LeaseTerms::new(secs(3)).expect("long enough");
        settings.abandon_after = 1;
    });
    let _engine = Engine::start(short, ports, &Runtimes::current()).expect("valid settings");
    stage.until("it is being sent", |_| stage.receiver.requests_to("slow") == 1).await;
    stage.door().fail(&[Call::Renew]);
    stage.until("both are heard of", |_| heard.all().len() >= 2).await;
    let mut both = heard.all();
    both.sort();
    assert_eq!(both[..2], ["1 abandoned", "lease lost"], "{both:?}");
}

#[tokio::test(start_paused = true)]
async fn a_pulse_tells_what_is_in_flight_and_whether_claiming_works() {
    let stage = Stage::set();
    stage.receiver.always("slow", Reply::After(secs(20), 200));
    let engine = stage.start(|_| {});
    let health = engine.health();
    stage.enqueue("slow", 3).await;
    stage.until("they are being sent", |_| stage.receiver.requests_to("slow") == 3).await;
    assert_eq!((health.in_flight(), health.circuits_open()), (3, 0));
    assert!(health.since_claim().expect("there is a worker") <= secs(1));
    stage.door().fail(&[Call::Claim]);
    stage.pass(secs(60)).await;
    assert!(health.since_claim().expect("there is a worker") >= secs(50));
    drop(engine);
    stage.until("the worker is gone", |_| health.since_claim().is_none()).await;
    assert_eq!(health.in_flight(), 0);
}
