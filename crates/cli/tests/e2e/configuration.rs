//! Effects of the settings on deliveries, under the names of the requirement documents.

use std::hint::black_box;
use std::time::Duration;

use posthaste::domain::{RandomDraw, RetryPolicy};
use serde_json::{Value, json};

use crate::harness::{Event, RealInstant, Receiver, Sandbox, Store, send_request, wait_until};

const JITTER: &str = "PAYMENT_REQUEST_WEBHOOK_RETRY_JITTER_BPS";
const BUDGET: &str = "PAYMENT_REQUEST_WEBHOOK_RETRY_BUDGET";

on_each_store! {
    s0_fr004_ac1_jitter_and_budget_act_on_the_deliveries_of_a_service,
    s1_3_2_the_four_settings_act_on_deliveries_under_their_names,
}

/// Returns the value of a setting from `posthaste config`.
fn setting_value(sandbox: &Sandbox, name: &str) -> Value {
    let exit = sandbox.run(&["config", "--json"]);
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);
    let config: Value = serde_json::from_str(&exit.stdout).unwrap();
    let mut settings = config["settings"].as_array().unwrap().iter();
    settings.find(|setting| setting["name"] == name).unwrap()["value"].clone()
}

/// Checks that every start with this setting is refused with these texts and creates no files.
#[track_caller]
fn assert_refused(name: &str, value: &str, expected: &[&str]) {
    let sandbox = Sandbox::new(Store::Sqlite).with_env(name, value);
    for arguments in [&[][..], &["serve"], &["worker"], &["dispatch", "--once"]] {
        let exit = sandbox.run(arguments);
        assert_eq!((exit.code, exit.stdout.as_str()), (Some(2), ""), "{arguments:?}: {}", exit.stderr);
        for text in expected.iter().chain([&name, &value]) {
            assert!(exit.stderr.contains(text), "{text:?} is not in: {}", exit.stderr);
        }
    }
    assert!(sandbox.has_no_files(), "the refused start created files");
}

#[test]
fn s0_fr001_ac1_jitter_outside_0_to_10000_stops_the_start() {
    assert_refused(JITTER, "10001", &["0 to 10000"]);
    assert_refused(JITTER, "-1", &["0 to 10000"]);
    for bps in ["0", "10000"] {
        assert_eq!(
            setting_value(&Sandbox::new(Store::Sqlite).with_env(JITTER, bps), "retry_jitter_bps"),
            bps
        );
    }
}

#[test]
fn s0_fr002_ac1_a_budget_below_zero_stops_the_start() {
    assert_refused(BUDGET, "-1", &["a whole number from 0"]);
    assert_eq!(setting_value(&Sandbox::new(Store::Sqlite).with_env(BUDGET, "3"), "retry_budget"), "3");
}

#[test]
fn s1_3_4_a_base_delay_under_30_s_stops_every_process_with_value_floor_and_contract() {
    let expected = ["5s", "30s", "the retry contract (docs/retry-contract.md)", "allow_fast_retries"];
    assert_refused("BASE_RETRY_DELAY", "5", &expected);
    assert_refused("POSTHASTE_RETRY_SCHEDULE_SECONDS", "5,120", &expected);
}

#[test]
fn s1_3_4_service_warns_of_fast_retries_at_every_start() {
    let sandbox = Sandbox::new(Store::Sqlite).with_fast_retries();
    for _ in 0..2 {
        let service = sandbox.serve();
        assert_eq!(service.get("/healthz").status, 200);
        let exit = service.stop();
        let warnings = exit.stderr.lines().filter(|line| line.contains("\"WARN\"")).collect::<Vec<_>>();
        let has_warning = |text: &str| warnings.iter().any(|line| line.contains(text));
        assert!(
            has_warning("POSTHASTE_ALLOW_FAST_RETRIES=true") && has_warning("retry contract"),
            "{warnings:?}"
        );
    }
    let doctor = sandbox.run(&["doctor"]);
    assert!(
        (doctor.stdout + &doctor.stderr).contains("ALLOW_FAST_RETRIES"),
        "the doctor does not report fast retries"
    );
}

fn s0_fr004_ac1_jitter_and_budget_act_on_the_deliveries_of_a_service(sandbox: Sandbox) {
    let receiver = Receiver::responding(500);
    // The budget allows two of the six stored attempts. Without jitter, the delay between them is exactly the base delay.
    let (with_jitter, sandbox) = (
        Sandbox::new(sandbox.store).with_env(JITTER, "10000"),
        sandbox.with_fast_retries().with_env(BUDGET, "1"),
    );
    let service = sandbox.serve();
    let event_id = service.enqueue(&Event::to(&receiver));
    let failed = service.wait_until_failed(&event_id);
    assert_eq!((&failed["attempts"], &failed["max_attempts"]), (&json!(2), &json!(6)));
    assert_eq!(service.metrics()["webhook_retry_delay_sum"], 1.0);
    service.stop();

    // The largest jitter spreads the delays from almost zero to twice the base delay.
    let service = with_jitter.serve();
    let event_ids = service.enqueue_all(&vec![Event::to(&Receiver::responding(404)); 8]);
    let mut delays: Vec<u64> = event_ids
        .iter()
        .map(|event_id| {
            let event = service.wait_for_attempts(event_id, 1);
            assert_eq!(event["delivery_status"], "pending", "a budget of 0 lowered the limit");
            let time = |field: &str| event[field].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
            let delay = time("next_attempt_at").duration_since(time("updated_at"));
            u64::try_from(delay.as_millis()).unwrap()
        })
        .collect();
    assert!(delays.iter().all(|delay| (0..=240_000).contains(delay)), "{delays:?}");
    delays.sort_unstable();
    delays.dedup();
    // A delay under a second is raised to one second, so a few delays may be equal.
    assert!(delays.len() > 4, "the delays are not spread: {delays:?}");
    service.stop();
}

#[test]
fn explanation_of_an_event_names_the_retry_budget() {
    let sandbox = Sandbox::new(Store::Sqlite).with_env(BUDGET, "1");
    let service = sandbox.serve_with(&["--no-worker"]);
    let receiver = Receiver::responding(500);
    let event_id = service.enqueue(&Event::to(&receiver));
    assert_eq!(sandbox.run(&["dispatch", "--once"]).code, Some(0));
    let event = service.event(&event_id);
    let explanation = event["explanation"].as_str().unwrap();
    assert!(explanation.starts_with("Retry 1 of 1 is due at "), "{explanation}");
    assert!(explanation.contains("The retry budget now allows 1 of its 5 retries."), "{explanation}");
    service.stop();
}

fn s1_3_2_the_four_settings_act_on_deliveries_under_their_names(sandbox: Sandbox) {
    for (name, default) in [
        ("timeout_seconds", "30"),
        ("max_retry_attempts", "5"),
        ("retry_batch_size", "100"),
        ("http_pool_size", "20"),
    ] {
        assert_eq!(setting_value(&sandbox, name), default, "{name}");
    }
    let mut sandbox = sandbox
        .with_fast_retries()
        .with_env("MAX_RETRY_ATTEMPTS", "1")
        .with_env("HTTP_POOL_SIZE", "2")
        .with_env("RETRY_BATCH_SIZE", "1");
    let service = sandbox.serve_with(&["--no-worker"]);
    let receiver = Receiver::blocking(200);
    service.enqueue_all(&vec![Event::to(&receiver); 5]);
    let dispatch = sandbox.start(&["dispatch", "--once"]);
    receiver.wait_for_requests(2);
    receiver.release();
    let report: Value = serde_json::from_str(&dispatch.wait_for_exit().stdout).unwrap();
    assert_eq!((&report["delivered_count"], receiver.in_flight_max()), (&json!(5), 2), "HTTP_POOL_SIZE");

    sandbox.set_env("WEBHOOK_TIMEOUT_SECONDS", "1");
    let dispatch = || -> Value {
        let exit = sandbox.run(&["dispatch", "--once"]);
        assert_eq!(exit.code, Some(0), "{}", exit.stderr);
        serde_json::from_str(&exit.stdout).unwrap()
    };
    let timed_out = service.enqueue(&Event::to(&Receiver::blocking(200)));
    dispatch();
    let event = service.event(&timed_out);
    assert_eq!(event["max_attempts"], 2, "MAX_RETRY_ATTEMPTS and the first attempt");
    let attempt = &event["history"][0];
    assert_eq!(attempt["error_class"], "timeout");
    let duration_ms = attempt["duration_ms"].as_u64().unwrap();
    assert!((1_000..25_000).contains(&duration_ms), "WEBHOOK_TIMEOUT_SECONDS: {duration_ms} ms");

    let broken = Receiver::responding(500);
    let event_ids = service.enqueue_all(&vec![Event::to(&broken); 3]);
    dispatch();
    wait_until("every retry is due", || {
        let overview = service.overview();
        (overview["pending_count"].as_u64() >= Some(2)
            && overview["pending_ready_count"] == overview["pending_count"])
            .then_some(())
    });
    assert_eq!(dispatch()["claimed_count"], 1, "RETRY_BATCH_SIZE");
    wait_until("no event is pending", || {
        dispatch();
        (service.overview()["pending_count"] == 0).then_some(())
    });
    for event_id in &event_ids {
        let failed = service.event(event_id);
        assert_eq!((&failed["delivery_status"], &failed["attempts"]), (&json!("failed"), &json!(2)));
    }
    service.stop();
}

/// Compares with a round trip on loopback, the shortest network. Takes the best of many measurements of each.
#[test]
fn s0_nfr001_a_jittered_delay_costs_less_than_a_hundredth_of_a_round_trip() {
    const DELAYS: u32 = 10_000;
    let policy = RetryPolicy::default();
    let measure_best = |operation: &mut dyn FnMut()| -> Duration {
        let durations = (0..50).map(|_| {
            let started = RealInstant::now();
            operation();
            started.elapsed()
        });
        durations.min().unwrap()
    };
    let mut sum = Duration::ZERO;
    let delays = measure_best(&mut || {
        for number in 0..DELAYS {
            let draw = RandomDraw(u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            sum += black_box(policy.delay(black_box(number % 5), draw));
        }
    });
    assert!(sum > Duration::ZERO);
    let receiver = Receiver::responding(200);
    let address = receiver.url().trim_start_matches("http://").trim_end_matches("/hook").parse().unwrap();
    let round_trip = measure_best(&mut || {
        send_request(address, "POST", "/hook", &[], "{}").unwrap();
    });
    let delay = delays / DELAYS;
    assert!(delay < round_trip / 100, "a delay takes {delay:?}, a round trip {round_trip:?}");
}
