//! A worker whose host has another time than the store.

use std::time::Duration;

use posthaste_domain::Timestamp;
use posthaste_engine::{ClockSkew, host_time};

use crate::harness::{Event, Receiver, Sandbox, Store};

/// Returns whether this is an hour. A worker's reading is off by up to half of the time that its claim took.
fn is_an_hour(seconds: f64) -> bool {
    (3_590.0..=3_610.0).contains(&seconds)
}

#[test]
fn worker_an_hour_behind_the_store_signs_with_the_stores_time_and_says_so() {
    let sandbox = Sandbox::new(Store::Postgres);
    // The host cannot be set back, so the store's clock is set ahead.
    sandbox.sql(
        "CREATE OR REPLACE FUNCTION app.webhook_now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
         AS $$SELECT statement_timestamp() + interval '1 hour'$$",
    );
    let receiver = Receiver::responding(200);
    let service = sandbox.serve();
    let event_id = service.enqueue(&Event::to(&receiver));
    service.wait_until_delivered(&event_id);
    let signed_at: i64 = receiver.requests()[0].header("webhook-timestamp").unwrap().parse().unwrap();
    let store_time = host_time().after(Duration::from_secs(3_600));
    let off = ClockSkew::between(Timestamp::from_secs(signed_at), store_time);
    assert!(off.is_tolerable(), "the signature is {off:?} off the store's clock");

    let message = "this host's clock differs from the store's; requests carry the store's time";
    let warned = service.wait_for_log(message, 1);
    assert!(is_an_hour(-warned[0]["skew_seconds"].as_f64().unwrap()), "{warned:?}");
    let ready = service.get("/readyz").expect_json(200);
    let clock = ready["checks"].as_array().unwrap().iter().find(|check| check["name"] == "clock").unwrap();
    assert_eq!(clock["ok"], true);
    let detail = clock["detail"].as_str().unwrap();
    let behind = detail.strip_prefix("differs: this host's clock is ").unwrap_or_default();
    let behind = behind.strip_suffix(" s behind the store's").and_then(|seconds| seconds.parse::<f64>().ok());
    assert!(behind.is_some_and(is_an_hour), "{detail}");
    service.wait_for_metrics("the skew is measured", |metrics| {
        is_an_hour(-metrics["webhook_clock_skew_seconds"])
    });
    let doctor = sandbox.run(&["doctor"]);
    assert!(
        doctor.stdout.contains("behind the store's: signatures carry the store's time"),
        "{}",
        doctor.stdout
    );
    service.stop();
}
