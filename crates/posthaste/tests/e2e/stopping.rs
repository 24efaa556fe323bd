//! Being told to stop.

use serde_json::json;

use crate::stage::{Event, Home, Receiver, Reply};

const STOPPING: &str = "stopping: what is in flight may finish; a second signal stops at once";

on_each_store! {
    a_service_may_be_stopped_as_soon_as_it_says_where_it_listens,
    a_worker_may_be_stopped_as_soon_as_it_says_that_it_delivers,
    a_stopping_service_finishes_what_is_in_flight,
    a_second_signal_does_not_wait,
    what_has_not_finished_in_time_is_given_back,
    a_stopping_worker_finishes_what_is_in_flight,
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
