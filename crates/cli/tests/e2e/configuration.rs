//! Settings under the names of the requirement documents, as they act on a delivery.

use std::hint::black_box;
use std::time::Duration;

use posthaste::domain::{RandomDraw, RetryPolicy};
use serde_json::{Value, json};

use crate::stage::{Event, Home, Moment, Receiver, Store, ask, until};

const JITTER: &str = "PAYMENT_REQUEST_WEBHOOK_RETRY_JITTER_BPS";
const BUDGET: &str = "PAYMENT_REQUEST_WEBHOOK_RETRY_BUDGET";

on_each_store! {
    s0_fr004_ac1_jitter_and_budget_act_on_the_deliveries_of_a_service,
    s1_3_2_the_four_settings_act_on_deliveries_under_their_names,
}

/// A setting as `posthaste config` tells it.
fn setting(home: &Home, name: &str) -> Value {
    let ended = home.run(&["config", "--json"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let told: Value = serde_json::from_str(&ended.stdout).unwrap();
    let mut settings = told["settings"].as_array().unwrap().iter();
    settings.find(|setting| setting["name"] == name).unwrap()["value"].clone()
}

/// A start that is refused, and leaves nothing behind.
#[track_caller]
fn refused(name: &str, value: &str, told: &[&str]) {
    let home = Home::on(Store::Sqlite).with(name, value);
    for arguments in [&[][..], &["serve"], &["worker"], &["dispatch", "--once"]] {
        let ended = home.run(arguments);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{arguments:?}: {}", ended.stderr);
        for told in told.iter().chain([&name, &value]) {
            assert!(ended.stderr.contains(told), "{told:?} is not in: {}", ended.stderr);
        }
    }
    assert!(home.is_untouched(), "nothing is made by a start that is refused");
}

#[test]
fn s0_fr001_ac1_jitter_outside_0_to_10000_stops_the_start() {
    refused(JITTER, "10001", &["0 to 10000"]);
    refused(JITTER, "-1", &["0 to 10000"]);
    for bps in ["0", "10000"] {
        assert_eq!(setting(&Home::on(Store::Sqlite).with(JITTER, bps), "retry_jitter_bps"), bps);
    }
}

#[test]
fn s0_fr002_ac1_a_budget_below_zero_stops_the_start() {
    refused(BUDGET, "-1", &["a whole number from 0"]);
    assert_eq!(setting(&Home::on(Store::Sqlite).with(BUDGET, "3"), "retry_budget"), "3");
}

#[test]
fn s1_3_4_a_base_delay_under_30_s_stops_every_process_with_value_floor_and_contract() {
    let told = ["5s", "30s", "the retry contract (docs/retry-contract.md)", "allow_fast_retries"];
    refused("BASE_RETRY_DELAY", "5", &told);
    refused("POSTHASTE_RETRY_SCHEDULE_SECONDS", "5,120", &told);
}

#[test]
fn s1_3_4_fast_retries_are_warned_of_at_every_start() {
    let home = Home::on(Store::Sqlite).with_fast_retries();
    for _ in 0..2 {
        let service = home.serve();
        assert_eq!(service.get("/healthz").status, 200);
        let ended = service.stop();
        let warnings = ended.stderr.lines().filter(|line| line.contains("\"WARN\"")).collect::<Vec<_>>();
        let told = |word: &str| warnings.iter().any(|line| line.contains(word));
        assert!(told("POSTHASTE_ALLOW_FAST_RETRIES=true") && told("retry contract"), "{warnings:?}");
    }
    let doctor = home.run(&["doctor"]);
    assert!((doctor.stdout + &doctor.stderr).contains("ALLOW_FAST_RETRIES"), "the doctor tells too");
}

fn s0_fr004_ac1_jitter_and_budget_act_on_the_deliveries_of_a_service(home: Home) {
    let receiver = Receiver::answering(500);
    // Two attempts where six are stored; and with no jitter, exactly the base between them.
    let (jittery, home) =
        (Home::on(home.store).with(JITTER, "10000"), home.with_fast_retries().with(BUDGET, "1"));
    let service = home.serve();
    let event_id = service.enqueue(&Event::to(&receiver));
    let failed = service.failed(&event_id);
    assert_eq!((&failed["attempts"], &failed["max_attempts"]), (&json!(2), &json!(6)));
    assert_eq!(service.metrics()["webhook_retry_delay_sum"], 1.0);
    service.stop();

    // All the jitter there is: somewhere from next to nothing to twice the base, and not all in one place.
    let service = jittery.serve();
    let event_ids = service.enqueue_all(&vec![Event::to(&Receiver::answering(404)); 8]);
    let mut delays: Vec<u64> = event_ids
        .iter()
        .map(|event_id| {
            let shown = service.attempted(event_id, 1);
            assert_eq!(shown["delivery_status"], "pending", "a budget that is off lowers nothing");
            let moment = |field: &str| shown[field].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
            let delay = moment("next_attempt_at").duration_since(moment("updated_at"));
            u64::try_from(delay.as_millis()).unwrap()
        })
        .collect();
    assert!(delays.iter().all(|delay| (0..=240_000).contains(delay)), "{delays:?}");
    delays.sort_unstable();
    delays.dedup();
    // A delay under a second is made one, so two may be alike by chance.
    assert!(delays.len() > 4, "all in one place: {delays:?}");
    service.stop();
}

#[test]
fn a_service_tells_of_the_budget_that_an_event_waits_under() {
    let home = Home::on(Store::Sqlite).with(BUDGET, "1");
    let service = home.serve_with(&["--no-worker"]);
    let receiver = Receiver::answering(500);
    let event_id = service.enqueue(&Event::to(&receiver));
    assert_eq!(home.run(&["dispatch", "--once"]).code, Some(0));
    let shown = service.event(&event_id);
    let told = shown["explanation"].as_str().unwrap();
    assert!(told.starts_with("Retry 1 of 1 is due at "), "{told}");
    assert!(told.contains("The retry budget now allows 1 of its 5 retries."), "{told}");
    service.stop();
}

fn s1_3_2_the_four_settings_act_on_deliveries_under_their_names(home: Home) {
    for (name, default) in [
        ("timeout_seconds", "30"),
        ("max_retry_attempts", "5"),
        ("retry_batch_size", "100"),
        ("http_pool_size", "20"),
    ] {
        assert_eq!(setting(&home, name), default, "{name}");
    }
    let mut home = home
        .with_fast_retries()
        .with("MAX_RETRY_ATTEMPTS", "1")
        .with("HTTP_POOL_SIZE", "2")
        .with("RETRY_BATCH_SIZE", "1");
    let service = home.serve_with(&["--no-worker"]);
    let held = Receiver::holding(200);
    service.enqueue_all(&vec![Event::to(&held); 5]);
    let dispatching = home.start(&["dispatch", "--once"]);
    held.received(2);
    held.let_go();
    let report: Value = serde_json::from_str(&dispatching.end().stdout).unwrap();
    assert_eq!((&report["delivered_count"], held.in_flight_max()), (&json!(5), 2), "HTTP_POOL_SIZE");

    home.set("WEBHOOK_TIMEOUT_SECONDS", "1");
    let dispatch = || -> Value {
        let ended = home.run(&["dispatch", "--once"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        serde_json::from_str(&ended.stdout).unwrap()
    };
    let timed_out = service.enqueue(&Event::to(&Receiver::holding(200)));
    dispatch();
    let event = service.event(&timed_out);
    assert_eq!(event["max_attempts"], 2, "MAX_RETRY_ATTEMPTS and the first");
    let attempt = &event["history"][0];
    assert_eq!(attempt["error_class"], "timeout");
    let took = attempt["duration_ms"].as_u64().unwrap();
    assert!((1_000..25_000).contains(&took), "WEBHOOK_TIMEOUT_SECONDS: {took} ms");

    let broken = Receiver::answering(500);
    let event_ids = service.enqueue_all(&vec![Event::to(&broken); 3]);
    dispatch();
    until("every retry is due", || {
        let overview = service.overview();
        (overview["pending_count"].as_u64() >= Some(2)
            && overview["pending_ready_count"] == overview["pending_count"])
            .then_some(())
    });
    assert_eq!(dispatch()["claimed_count"], 1, "RETRY_BATCH_SIZE");
    until("nothing is left", || {
        dispatch();
        (service.overview()["pending_count"] == 0).then_some(())
    });
    for event_id in &event_ids {
        let failed = service.event(event_id);
        assert_eq!((&failed["delivery_status"], &failed["attempts"]), (&json!("failed"), &json!(2)));
    }
    service.stop();
}

/// Against the shortest network there is, each at its best of many tries.
#[test]
fn s0_nfr001_a_jittered_delay_costs_less_than_a_hundredth_of_a_round_trip() {
    const DELAYS: u32 = 10_000;
    let policy = RetryPolicy::default();
    let best = |measured: &mut dyn FnMut()| -> Duration {
        let tries = (0..50).map(|_| {
            let started = Moment::now();
            measured();
            started.ago()
        });
        tries.min().unwrap()
    };
    let mut sum = Duration::ZERO;
    let delays = best(&mut || {
        for number in 0..DELAYS {
            let roll = RandomDraw(u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            sum += black_box(policy.delay(black_box(number % 5), roll));
        }
    });
    assert!(sum > Duration::ZERO);
    let receiver = Receiver::answering(200);
    let address = receiver.url().trim_start_matches("http://").trim_end_matches("/hook").parse().unwrap();
    let round_trip = best(&mut || {
        ask(address, "POST", "/hook", &[], "{}").unwrap();
    });
    let delay = delays / DELAYS;
    assert!(delay < round_trip / 100, "{delay:?} beside {round_trip:?}");
}
