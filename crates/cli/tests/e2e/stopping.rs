//! Being told to stop.

use serde_json::{Value, json};

use crate::stage::{Event, Home, Receiver, Reply};

const STOPPING: &str = "stopping: what is in flight may finish; a second signal stops at once";

on_each_store! {
    a_service_may_be_stopped_as_soon_as_it_says_where_it_listens,
    a_worker_may_be_stopped_as_soon_as_it_says_that_it_delivers,
    a_stopping_service_finishes_what_is_in_flight,
    a_second_signal_does_not_wait,
    what_has_not_finished_in_time_is_given_back,
    a_stopping_worker_finishes_what_is_in_flight,
    a_stopping_dispatch_finishes_what_is_in_flight_and_reports_it,
    a_dispatch_that_cannot_finish_in_time_gives_back_what_is_in_flight,
    a_second_signal_ends_a_dispatch_at_once,
}

fn a_service_may_be_stopped_as_soon_as_it_says_where_it_listens(home: Home) {
    let ended = home.serve().stop();
    assert!(ended.stderr.contains("\"message\":\"stopped\""), "{}", ended.stderr);
}

fn a_worker_may_be_stopped_as_soon_as_it_says_that_it_delivers(home: Home) {
    let ended = home.worker().stop();
    assert!(ended.stderr.contains("\"message\":\"stopped\""), "{}", ended.stderr);
}

fn a_stopping_service_finishes_what_is_in_flight(home: Home) {
    let receiver = Receiver::holding(200);
    let mut service = home.serve();
    let in_flight = service.enqueue(&Event::to(&receiver));
    receiver.received(1);
    let follower = service.follow(None);
    service.signal("TERM");
    service.logged(STOPPING, 1);
    follower.finish();
    assert!(service.is_running(), "a request is in flight");
    receiver.let_go();
    let ended = service.end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("everything in flight was finished"), "{}", ended.stderr);

    let service = home.serve();
    let shown = service.event(&in_flight);
    assert_eq!((&shown["delivery_status"], &shown["attempts"]), (&json!("delivered"), &json!(1)));
    service.stop();
    assert_eq!(receiver.requests().len(), 1);
}

fn a_second_signal_does_not_wait(home: Home) {
    let home = home.with("POSTHASTE_LEASE_SECONDS", "5");
    let receiver =
        Receiver::scripted(|_, before| if before == 0 { Reply::Held(200) } else { Reply::Status(200) });
    let service = home.serve();
    let event_id = service.enqueue(&Event::to(&receiver));
    receiver.received(1);
    service.signal("INT");
    service.logged(STOPPING, 1);
    service.signal("TERM");
    let ended = service.end();
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("stopped at once"), "{}", ended.stderr);

    let service = home.serve();
    service.delivered(&event_id);
    service.stop();
    assert_eq!(receiver.count_of(&event_id), 2);
}

/// The lease is long: without being given back, the event would wait ten minutes.
fn what_has_not_finished_in_time_is_given_back(home: Home) {
    let home = home.with("POSTHASTE_SHUTDOWN_SECONDS", "4").with("POSTHASTE_LEASE_SECONDS", "600");
    let receiver =
        Receiver::scripted(|_, before| if before == 0 { Reply::Held(200) } else { Reply::Status(200) });
    let service = home.serve();
    let event_id = service.enqueue(&Event::to(&receiver));
    receiver.received(1);
    let ended = service.stop();
    assert!(ended.stderr.contains("not everything in flight was finished"), "{}", ended.stderr);

    let service = home.serve();
    let delivered = service.delivered(&event_id);
    assert_eq!(delivered["attempts"], 1, "an attempt that was broken off counts for nothing");
    service.stop();
    assert_eq!((receiver.count_of(&event_id), home.claims(&event_id)), (2, 2));
}

fn a_stopping_worker_finishes_what_is_in_flight(home: Home) {
    let receiver = Receiver::holding(200);
    let service = home.serve_with(&["--no-worker"]);
    let event_id = service.enqueue(&Event::to(&receiver));
    let mut worker = home.worker();
    receiver.received(1);
    worker.signal("TERM");
    worker.logged(STOPPING, 1);
    assert!(worker.is_running(), "a request is in flight");
    receiver.let_go();
    assert_eq!(worker.end().code, Some(0));
    assert_eq!(service.event(&event_id)["delivery_status"], "delivered");
    service.stop();
}

fn a_stopping_dispatch_finishes_what_is_in_flight_and_reports_it(home: Home) {
    // One at a time: the second must not be claimed any more.
    let home = home.with("POSTHASTE_HTTP_POOL_SIZE", "1");
    let receiver = Receiver::holding(200);
    let service = home.serve_with(&["--no-worker"]);
    let event_ids = service.enqueue_all(&vec![Event::to(&receiver); 2]);
    let mut dispatch = home.start(&["dispatch", "--once"]);
    let in_flight = receiver.received(1)[0].event_id().to_owned();
    dispatch.signal("TERM");
    dispatch.logged(STOPPING, 1);
    assert!(dispatch.is_running(), "a request is in flight");
    receiver.let_go();
    let ended = dispatch.end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((&report["claimed_count"], &report["delivered_count"]), (&json!(1), &json!(1)));
    for event_id in &event_ids {
        let expected = if *event_id == in_flight { "delivered" } else { "pending" };
        assert_eq!(service.event(event_id)["delivery_status"], expected);
    }
    service.stop();
    assert_eq!(receiver.requests().len(), 1);
}

/// The lease is long: without being given back, the event would wait ten minutes.
fn a_dispatch_that_cannot_finish_in_time_gives_back_what_is_in_flight(home: Home) {
    let home = home.with("POSTHASTE_SHUTDOWN_SECONDS", "4").with("POSTHASTE_LEASE_SECONDS", "600");
    let receiver =
        Receiver::scripted(|_, before| if before == 0 { Reply::Held(200) } else { Reply::Status(200) });
    let service = home.serve_with(&["--no-worker"]);
    let event_id = service.enqueue(&Event::to(&receiver));
    let dispatch = home.start(&["dispatch", "--once"]);
    receiver.received(1);
    dispatch.signal("TERM");
    let ended = dispatch.end();
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((&report["claimed_count"], &report["delivered_count"]), (&json!(1), &json!(0)));
    assert!(ended.stderr.contains("1 event given back and due at once"), "{}", ended.stderr);

    let again = home.run(&["dispatch", "--once"]);
    assert_eq!(again.code, Some(0), "{}", again.stderr);
    let delivered = service.event(&event_id);
    assert_eq!((&delivered["delivery_status"], &delivered["attempts"]), (&json!("delivered"), &json!(1)));
    service.stop();
}

fn a_second_signal_ends_a_dispatch_at_once(home: Home) {
    let receiver = Receiver::holding(200);
    let service = home.serve_with(&["--no-worker"]);
    service.enqueue(&Event::to(&receiver));
    let dispatch = home.start(&["dispatch", "--once"]);
    receiver.received(1);
    dispatch.signal("TERM");
    dispatch.logged(STOPPING, 1);
    dispatch.signal("INT");
    let ended = dispatch.end();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
    assert!(ended.stderr.contains("stopped at once"), "{}", ended.stderr);
    service.stop();
}
