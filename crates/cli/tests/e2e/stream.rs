//! Following the topic across restarts.

use crate::stage::{Event, Home, Receiver, Reply, Service};

on_each_store! {
    a_follower_that_comes_back_after_a_restart_has_missed_nothing,
}

/// Delivers one event, or dead-letters it, and returns what a follower is told of it.
fn ended(service: &Service, receiver: &Receiver, gone: bool) -> (String, String) {
    let event = Event::to(receiver).with("event_type", if gone { "invoice.void" } else { "invoice.paid" });
    let event_id = service.enqueue(&event);
    let notice = if gone { "WebhookDLQEvent" } else { "WebhookDeliveredEvent" };
    match gone {
        true => service.failed(&event_id),
        false => service.delivered(&event_id),
    };
    (event_id, notice.to_owned())
}

fn a_follower_that_comes_back_after_a_restart_has_missed_nothing(home: Home) {
    let receiver = Receiver::scripted(|request, _| {
        Reply::Status(if request.header("posthaste-event-type") == Some("invoice.void") { 410 } else { 200 })
    });
    let service = home.serve();
    let before = ended(&service, &receiver, false);
    let mut follower = service.follow(None);
    let seen = [ended(&service, &receiver, false), ended(&service, &receiver, true)];
    assert_eq!(follower.next_ids(2), seen);
    assert!(!seen.contains(&before), "what ended before is history");
    let last_event_id = follower.last_event_id.clone();
    drop(follower);

    let mut missed = vec![ended(&service, &receiver, true), ended(&service, &receiver, false)];
    service.stop();
    let service = home.serve();
    missed.push(ended(&service, &receiver, false));
    service.kill();
    let service = home.serve();
    missed.push(ended(&service, &receiver, true));

    let mut follower = service.follow(last_event_id.as_deref());
    assert_eq!(follower.next_ids(missed.len()), missed, "each once and in order");
    let live = ended(&service, &receiver, false);
    assert_eq!(follower.next_ids(1), [live]);
    // An open stream does not keep a service from stopping.
    service.stop();
    follower.finish();
}
