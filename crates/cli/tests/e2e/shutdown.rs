//! Graceful shutdown after a signal, and immediate exit after a second one.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{EVENTS, Event, RealInstant, Receiver, Reply, Sandbox, wait_until};

const STOPPING: &str = "stopping: deliveries in flight may finish; a second signal stops at once";

on_each_store! {
    service_can_be_stopped_as_soon_as_it_listens,
    worker_can_be_stopped_as_soon_as_it_delivers,
    hangup_stops_a_process_like_any_other_signal,
    stopping_service_refuses_requests_until_its_delay_has_passed,
    stopping_service_ends_after_its_delay,
    stopping_service_finishes_deliveries_in_flight,
    second_signal_ends_a_service_at_once,
    unfinished_delivery_is_released_after_the_shutdown_period,
    stopping_worker_finishes_deliveries_in_flight,
    stopping_dispatch_finishes_and_reports_deliveries_in_flight,
    dispatch_releases_deliveries_that_do_not_finish_in_time,
    second_signal_ends_a_dispatch_at_once,
}

fn service_can_be_stopped_as_soon_as_it_listens(sandbox: Sandbox) {
    let exit = sandbox.serve().stop();
    assert!(exit.stderr.contains("\"message\":\"stopped\""), "{}", exit.stderr);
}

fn worker_can_be_stopped_as_soon_as_it_delivers(sandbox: Sandbox) {
    assert_eq!(sandbox.run(&["migrate"]).code, Some(0));
    let exit = sandbox.start_worker().stop();
    assert!(exit.stderr.contains("\"message\":\"stopped\""), "{}", exit.stderr);
}

fn hangup_stops_a_process_like_any_other_signal(sandbox: Sandbox) {
    let service = sandbox.serve();
    service.signal("HUP");
    assert_eq!(service.wait_for_log(STOPPING, 1)[0]["signal"], "SIGHUP");
    assert_eq!(service.wait_for_exit().code, Some(0));
}

fn stopping_service_refuses_requests_until_its_delay_has_passed(sandbox: Sandbox) {
    // Longer than the test takes on any machine. A second signal ends the delay.
    let sandbox = sandbox.with_env("POSTHASTE_SHUTDOWN_DELAY_SECONDS", "600");
    let receiver = Receiver::responding(200);
    let service = sandbox.serve();
    service.signal("TERM");
    service.wait_for_log(STOPPING, 1);
    // A response that began before the stop may say that the worker has ended.
    let checks = json!([{ "name": "process", "ok": false, "detail": "is stopping" }]);
    wait_until("the service says that it is stopping", || {
        let response = service.get("/readyz");
        (response.status == 503 && response.expect_json(503)["checks"] == checks).then_some(())
    });
    service.post(EVENTS, &Event::to(&receiver).request_body()).expect_error(503, "unavailable");
    assert_eq!((service.get("/healthz").status, service.get("/metrics").status), (200, 200));
    service.signal("TERM");
    assert_eq!(service.wait_for_exit().code, Some(1));
}

fn stopping_service_ends_after_its_delay(sandbox: Sandbox) {
    let sandbox = sandbox.with_env("POSTHASTE_SHUTDOWN_DELAY_SECONDS", "1");
    let service = sandbox.serve();
    let signalled_at = RealInstant::now();
    service.stop();
    assert!(signalled_at.elapsed() >= Duration::from_secs(1), "the service did not wait for its delay");
}

fn stopping_service_finishes_deliveries_in_flight(sandbox: Sandbox) {
    let receiver = Receiver::blocking(200);
    let mut service = sandbox.serve();
    let in_flight = service.enqueue(&Event::to(&receiver));
    receiver.wait_for_requests(1);
    let subscriber = service.subscribe(None);
    service.signal("TERM");
    service.wait_for_log(STOPPING, 1);
    subscriber.read_to_end();
    assert!(service.is_running(), "the process ended with a request in flight");
    receiver.release();
    let exit = service.wait_for_exit();
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);
    assert!(exit.stderr.contains("all deliveries in flight finished"), "{}", exit.stderr);

    let service = sandbox.serve();
    let event = service.event(&in_flight);
    assert_eq!((&event["delivery_status"], &event["attempts"]), (&json!("delivered"), &json!(1)));
    service.stop();
    assert_eq!(receiver.requests().len(), 1);
}

fn second_signal_ends_a_service_at_once(sandbox: Sandbox) {
    let sandbox = sandbox.with_env("POSTHASTE_LEASE_SECONDS", "5");
    let receiver =
        Receiver::scripted(|_, earlier| if earlier == 0 { Reply::Blocked(200) } else { Reply::Status(200) });
    let service = sandbox.serve();
    let event_id = service.enqueue(&Event::to(&receiver));
    receiver.wait_for_requests(1);
    service.signal("INT");
    service.wait_for_log(STOPPING, 1);
    service.signal("TERM");
    let exit = service.wait_for_exit();
    assert_eq!(exit.code, Some(1), "{}", exit.stderr);
    assert!(exit.stderr.contains("stopped at once"), "{}", exit.stderr);

    let service = sandbox.serve();
    service.wait_until_delivered(&event_id);
    service.stop();
    assert_eq!(receiver.count_requests_of(&event_id), 2);
}

/// The lease is long: without a release, the event would wait ten minutes.
fn unfinished_delivery_is_released_after_the_shutdown_period(sandbox: Sandbox) {
    let sandbox =
        sandbox.with_env("POSTHASTE_SHUTDOWN_SECONDS", "4").with_env("POSTHASTE_LEASE_SECONDS", "600");
    let receiver =
        Receiver::scripted(|_, earlier| if earlier == 0 { Reply::Blocked(200) } else { Reply::Status(200) });
    let service = sandbox.serve();
    let event_id = service.enqueue(&Event::to(&receiver));
    receiver.wait_for_requests(1);
    let exit = service.stop();
    assert!(exit.stderr.contains("some deliveries in flight did not finish"), "{}", exit.stderr);

    let service = sandbox.serve();
    let delivered = service.wait_until_delivered(&event_id);
    assert_eq!(delivered["attempts"], 1, "an interrupted attempt was counted");
    service.stop();
    assert_eq!((receiver.count_requests_of(&event_id), sandbox.count_claims(&event_id)), (2, 2));
}

fn stopping_worker_finishes_deliveries_in_flight(sandbox: Sandbox) {
    let receiver = Receiver::blocking(200);
    let service = sandbox.serve_with(&["--no-worker"]);
    let event_id = service.enqueue(&Event::to(&receiver));
    let mut worker = sandbox.start_worker();
    receiver.wait_for_requests(1);
    worker.signal("TERM");
    worker.wait_for_log(STOPPING, 1);
    assert!(worker.is_running(), "the process ended with a request in flight");
    receiver.release();
    assert_eq!(worker.wait_for_exit().code, Some(0));
    assert_eq!(service.event(&event_id)["delivery_status"], "delivered");
    service.stop();
}

fn stopping_dispatch_finishes_and_reports_deliveries_in_flight(sandbox: Sandbox) {
    // One delivery at a time. After the signal, the second event must not be claimed.
    let sandbox = sandbox.with_env("POSTHASTE_HTTP_POOL_SIZE", "1");
    let receiver = Receiver::blocking(200);
    let service = sandbox.serve_with(&["--no-worker"]);
    let event_ids = service.enqueue_all(&vec![Event::to(&receiver); 2]);
    let mut dispatch = sandbox.start(&["dispatch", "--once"]);
    let in_flight = receiver.wait_for_requests(1)[0].event_id().to_owned();
    dispatch.signal("TERM");
    dispatch.wait_for_log(STOPPING, 1);
    assert!(dispatch.is_running(), "the process ended with a request in flight");
    receiver.release();
    let exit = dispatch.wait_for_exit();
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);
    let report: Value = serde_json::from_str(&exit.stdout).unwrap();
    assert_eq!((&report["claimed_count"], &report["delivered_count"]), (&json!(1), &json!(1)));
    for event_id in &event_ids {
        let expected = if *event_id == in_flight { "delivered" } else { "pending" };
        assert_eq!(service.event(event_id)["delivery_status"], expected);
    }
    service.stop();
    assert_eq!(receiver.requests().len(), 1);
}

/// The lease is long: without a release, the event would wait ten minutes.
fn dispatch_releases_deliveries_that_do_not_finish_in_time(sandbox: Sandbox) {
    let sandbox =
        sandbox.with_env("POSTHASTE_SHUTDOWN_SECONDS", "4").with_env("POSTHASTE_LEASE_SECONDS", "600");
    let receiver =
        Receiver::scripted(|_, earlier| if earlier == 0 { Reply::Blocked(200) } else { Reply::Status(200) });
    let service = sandbox.serve_with(&["--no-worker"]);
    let event_id = service.enqueue(&Event::to(&receiver));
    let dispatch = sandbox.start(&["dispatch", "--once"]);
    receiver.wait_for_requests(1);
    dispatch.signal("TERM");
    let exit = dispatch.wait_for_exit();
    assert_eq!(exit.code, Some(1), "{}", exit.stderr);
    let report: Value = serde_json::from_str(&exit.stdout).unwrap();
    assert_eq!((&report["claimed_count"], &report["delivered_count"]), (&json!(1), &json!(0)));
    assert!(exit.stderr.contains("1 event released and due at once"), "{}", exit.stderr);

    let second = sandbox.run(&["dispatch", "--once"]);
    assert_eq!(second.code, Some(0), "{}", second.stderr);
    let delivered = service.event(&event_id);
    assert_eq!((&delivered["delivery_status"], &delivered["attempts"]), (&json!("delivered"), &json!(1)));
    service.stop();
}

fn second_signal_ends_a_dispatch_at_once(sandbox: Sandbox) {
    let receiver = Receiver::blocking(200);
    let service = sandbox.serve_with(&["--no-worker"]);
    service.enqueue(&Event::to(&receiver));
    let dispatch = sandbox.start(&["dispatch", "--once"]);
    receiver.wait_for_requests(1);
    dispatch.signal("TERM");
    dispatch.wait_for_log(STOPPING, 1);
    dispatch.signal("INT");
    let exit = dispatch.wait_for_exit();
    assert_eq!((exit.code, exit.stdout.as_str()), (Some(1), ""), "{}", exit.stderr);
    assert!(exit.stderr.contains("stopped at once"), "{}", exit.stderr);
    service.stop();
}
